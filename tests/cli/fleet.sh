# An anchor that moves from one directory to another: the example, and what copies may look like.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq tar sha256sum

export AKV_MODEL=$TINY
for i in {1..12}; do echo "You are agent $i of a team; answer in one short sentence, and only when you are asked."; done >system.txt
fleet() {
    env -u AKV_MODEL "$TOP/examples/fleet.sh" "$TINY" "$@" system.txt
}

t_begin "the example: prepare, copy what is missing, verify, restore, the same tokens"
t_run 0 fleet here there
t_out '^the same tokens$'
t_out '^restored [1-9][0-9]* of [0-9]+ tokens$'
n=$(wc -l <here/agent.sha256)
t_out "^copied $n of $n files\$"
t_begin "the second time nothing but the pin is copied; with a longer text only the pages that are new"
t_run 0 fleet here there
t_out "^copied 1 of $n files\$" # the pin
echo "And be kind." >>system.txt
t_run 0 fleet here there
t_out "^copied [234] of [0-9]+ files\$"
t_out '^the same tokens$'

t_begin "under a umask that lets a group write, it makes stores that are used, and only says its own line"
t_sh 0 "umask 002; env -u AKV_MODEL '$TOP/examples/fleet.sh' '$TINY' here3 there3 system.txt"
t_run 0 fleet here3 there3
t_is "$(grep -c '^restored ' "$t_stdout")" 1 "lines of what was restored"

t_begin "without its arguments it says what they are"
t_run 2 "$TOP/examples/fleet.sh"
t_run 2 fleet here

t_begin "what was changed on the way is found"
file=$(cut -c 67- here/agent.sha256 | sed -n 3p)
for where in "$file" "$(cut -c 67- here/agent.sha256 | tail -n 1)"; do
    rm -rf bad && cp -a there/store bad
    printf 'x' >>"bad/$where"
    t_sh 1 "cd bad && sha256sum -c --quiet"  <here/agent.sha256
done
rm -rf bad && cp -a there/store bad
printf 'x' >>"bad/$file"
t_run 1 akv-pin -s bad --verify
t_out '^damaged '
t_out '^pin agent: '

t_begin "copied without empty directories, config, lock: still a store, to read and to write"
rm -rf moved && mkdir moved
(cd there/store && tar -cf - VERSION objects refs) | (cd moved && tar -xpf -)
t_run 0 akv-pin -s moved --verify
t_sh 0 "akv-restore -s moved there/question.tok | akv-gen --json | jq -c '[.text, .tokens]'"
t_out_is there/cold.json
t_sh 0 "akv-pin -s moved --export agent | akv-pin -q -s moved again"
t_sh 0 "akv-gen -q -s moved --save -n 3 there/question.tok"
t_run 0 akv-pin -s moved --verify
t_is "$(akv-pin -s moved --list --json | jq -r .content | sort -u | wc -l)" 1 "contents of the two pins"

t_begin "such a copy can be changed at once"
for args in "--gc" "--rename agent b" "--remove agent" "--quota 1G"; do
    rm -rf bare && mkdir bare
    (cd there/store && tar -cf - VERSION objects refs) | (cd bare && tar -xpf -)
    # shellcheck disable=SC2086
    t_run 0 akv-pin -s bare $args
done
for args in "--gc" "--rename agent b" "--remove agent" "--verify" "--list" "--quarantine"; do
    # shellcheck disable=SC2086
    t_run 1 akv-pin -s nowhere $args
    [ ! -e nowhere ] || t_fail "akv-pin $args made a store"
done

t_begin "two stores join by copying; what both have stays"
akv-tokenize --raw <system.txt | akv-prefill | akv-pin -q -s second other
(cd second && tar -cf - objects refs) | (cd moved && tar -xkpf - 2>/dev/null)
t_run 0 akv-pin -s moved --verify
t_is "$(akv-pin -s moved --list --json | jq -r .name | tr '\n' ' ')" "again agent other " "the pins"

t_begin "names that sha256sum quotes"
for name in 'a\b' 'a b' 'ü' '-dash'; do
    t_run 0 akv-pin -s moved --rename -- other "$name"
    t_run 0 akv-pin -s moved --manifest -o manifest -- "$name"
    t_sh 0 "cd moved && sha256sum -c --quiet <../manifest"
    t_run 0 akv-pin -s moved --rename -- "$name" other
done

t_begin "provenance: the stream's digest, the model's name, the tool; they stay when the pin is renamed"
akv-tokenize --raw <system.txt | akv-prefill -o s.akv
t_run 0 akv-pin -q -s prov pin <s.akv
t_run 0 akv-pin -s prov --rename pin kept
t_run 0 akv-pin -s prov --list --json
t_is "$(jq -r .input "$t_stdout")" "$(sha256sum <s.akv | cut -c 1-64)" "the stream's digest"
t_is "$(jq -r .model "$t_stdout")" "$(akv-inspect --json "$TINY" | jq -r .name)" "the model"
t_is "$(jq -r .made_by "$t_stdout")" "akv-pin $(cat "$TOP/VERSION")" "the tool"
t_is "$(jq -r .options "$t_stdout")" null "the options"
t_is "$(jq -r .weights "$t_stdout")" "$(akv-inspect --json s.akv | jq -r 'select(.type == "H").fields.weights')" "the weights"
cp s.akv two.akv && jq -nc '{akv: "tokens/1", id: "a", n: 70, tokens: [range(70)]}' | akv-prefill >>two.akv
t_sh 0 "akv-pin -q -s prov --all two <two.akv"
t_is "$(akv-pin -s prov --list --json | jq -r 'select(.name == "two-2").options')" --all "the options"
t_sh 0 "env -u AKV_MODEL akv-pin -q -s prov without <s.akv; AKV_MODEL=nowhere.gguf akv-pin -q -s prov nowhere <s.akv"
"$AKV_BUILD/tests/mkmodel" --seed 7 -o other.gguf
t_sh 0 "akv-pin -s prov -m other.gguf other <s.akv"
t_err 'another model'
t_is "$(akv-pin -s prov --list --json | jq -c 'select(.name == ("without", "nowhere", "other")).model')" $'null\nnull\nnull' "models of pins made without it"
t_sh 5 "akv-pin -q -s prov -m nowhere.gguf x <s.akv"

t_begin "the list says what pins share, when they were used, and which are broken"
rm -rf list && jq -nc '{akv: "tokens/1", id: "a", n: 150, tokens: [range(150)]}' | akv-prefill | akv-pin -q -s list long
jq -nc '{akv: "tokens/1", id: "a", n: 70, tokens: [range(70)]}' | akv-prefill | akv-pin -q -s list short
find list/objects -type f -exec touch -d '2026-02-03T04:05:06Z' {} +
t_run 0 akv-pin -s list --list --json
t_is "$(jq -c '[.name, .tokens, .own_bytes + .shared_bytes == .bytes, .used, .whole]' "$t_stdout" | tr '\n' ' ')" \
    '["long",150,true,"2026-02-03T04:05:06Z",true] ["short",70,true,"2026-02-03T04:05:06Z",true] ' "the pins"
t_is "$(jq -s 'map(.shared_bytes) | unique | length' "$t_stdout")" 1 "the pins' shared bytes are the same"
t_is "$(find list/objects -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')" \
    "$(jq -s '(map(.own_bytes) | add) + .[0].shared_bytes' "$t_stdout")" "all bytes"
t_run 0 akv-pin -s list --list
t_out '^long .* 150 tokens .* used 2026-02-03T04:05:06Z .* akv-pin '
find list/objects -type f -size -"$(find list/objects -type f -printf '%s\n' | sort -n | tail -n 1)"c -delete
t_run 0 akv-pin -s list --list
t_out ' BROKEN$'
t_end
