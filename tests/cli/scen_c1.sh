# Identity of models: a file replaced, another tokenizer, salts.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"
t_needs tiny jq

mkmodel=$AKV_BUILD/tests/mkmodel
jq -nc '{akv: "tokens/1", id: "a", n: 150, tokens: [range(150) | (. * 7 + 11) % 300]}' >a.tok
cp "$TINY" model.gguf
export AKV_MODEL=$T/model.gguf
answer='jq -c "[.text, .tokens]"'
root() {
    akv-inspect --root --json -m model.gguf model.gguf | jq -r 'select(.root).root'
}
# reply FILE [OPTION...]: the answer to a.tok; stats in `stats`.
reply() {
    rm -f stats
    t_sh 0 "akv-gen -n 8 --json --stats=stats ${*:2} a.tok | $answer"
    cp "$t_stdout" "$1"
}

t_begin "C1 a fine-tune of the same shape at the same path: another root, no hit, its own answer"
t_run 0 akv-prefill -s store --save -o a.akv a.tok
reply first -s store
t_is "$(jq -r .hit stats)" full "hit before"
old=$(root)
"$mkmodel" --seed 7 -o model.gguf
[ "$(root)" != "$old" ] || t_fail "the root is the same"
reply cold --no-store
reply warm -s store
t_is "$(jq -r .hit stats)" none "hit after"
t_same cold warm
cmp -s first warm && t_fail "both models give one answer"

t_begin "C1 replaced in place with size and mtime preserved: another root by ctime, also when the digest is kept"
cp "$TINY" model.gguf
touch -d '2026-01-01' model.gguf
sleep 2.1 # a digest of a younger file is not kept
t_is "$(root)" "$old" "the root"
[ -n "$(ls .cache/akv/weights)" ] || t_fail "no digest is kept"
ls .cache/akv/weights >kept
size=$(stat -c %s model.gguf)
"$mkmodel" --seed 7 -o model.new && cat model.new 1<>model.gguf
touch -d '2026-01-01' model.gguf
t_is "$(stat -c %s model.gguf)" "$size" "the size"
new=$(root)
[ "$new" != "$old" ] || t_fail "the root is the same"
reply warm -s store
t_is "$(jq -r .hit stats)" none "hit"
t_same cold warm

t_begin "C1 a kept digest that is another file's: --verify -m finds it, and corrects it"
sleep 2.1
t_is "$(root)" "$new" "the root"
entry=$(find .cache/akv/weights -type f -printf '%f\n' | grep -vxF -f kept)
t_is "$(wc -w <<<"$entry")" 1 "entries more"
cp ".cache/akv/weights/$(head -n 1 kept)" ".cache/akv/weights/$entry" # as if nothing about the file had changed
t_is "$(root)" "$old" "the root by the stale digest"
cp ".cache/akv/weights/$entry" stale
t_run 1 akv-pin -s store --verify -m model.gguf
t_err '^akv-pin: model.gguf: the weights have changed'
t_out '^weights model.gguf: .*the weights have changed'
cp stale ".cache/akv/weights/$entry"
t_run 1 akv-pin -s store --verify -m model.gguf --json
t_is "$(jq -c '[.finding, .what]' "$t_stdout" | tail -n 1)" '["weights","model.gguf"]' "the finding"
t_is "$(root)" "$new" "the root after that"
t_run 0 akv-pin -s store --verify -m model.gguf

t_begin "C2 another tokenizer, the same weights: refused, the field named"
cp "$TINY" model.gguf
akv-prefill -o a.akv a.tok
akv-tokenize --raw -o text.tok <<<"a text"
key=tokenizer.ggml.bos_token_id
at=$(($(offset model.gguf $key) + ${#key} + 4))
id=$(od -An -tu1 -j $at -N 1 model.gguf)
bytes "$(printf '%02x' $((id + 1)))" | patch model.gguf $at
for tool in "akv-gen" "akv-prefill" "akv-restore -s store"; do
    t_sh 4 "$tool <a.akv"
    t_err_line '^akv-[a-z]+: standard input: record 1: tokenizer is [0-9a-f]{64}, here it is [0-9a-f]{64}$'
    t_sh 4 "$tool <text.tok"
    t_err 'tok'
done
[ "$(root)" != "$old" ] || t_fail "the root is the same"

t_begin "C7 two salts, and none, share nothing in one store"
cp "$TINY" model.gguf
(umask 077 && printf 'the first secret of 16+ bytes' >salt1 && printf 'the other secret of 16+ bytes' >salt2)
for salt in '' salt1 salt2; do
    AKV_SALT_FILE=$salt reply warm -s salted --save
    t_is "$(jq -r .hit stats)" none "hit under the salt '$salt'"
    AKV_SALT_FILE=$salt reply again -s salted
    t_is "$(jq -r '.cached_tokens >= 128' stats)" true "a hit the second time"
    AKV_SALT_FILE=$salt t_run 0 akv-prefill -q -o "salted-$salt.akv" a.tok
    AKV_SALT_FILE=$salt t_run 0 bash -c 'akv-pin -s salted pin <"$1"' - "salted-$salt.akv"
done
t_same warm again first
t_is "$(akv-pin -s salted --list --json | jq -r .root | sort -u | wc -l)" 3 "roots"
t_is "$(find salted/objects -type f -printf '%f\n' | sort -u | wc -l)" "$(find salted/objects -type f | wc -l)" "names"
AKV_SALT_FILE=salt2 t_run 4 akv-gen salted-salt1.akv
t_err_line 'record 1: the salt is another one$'
t_run 4 akv-gen salted-salt1.akv
t_err_line 'salted is 1, here it is absent$'
t_run 0 akv-pin -s salted --verify
t_begin "C7 a salt is never printed or kept"
for secret in 'first secret' "$(printf 'first secret' | od -An -tx1 | tr -d ' \n')" "$(sha256sum <salt1 | cut -c 1-64)"; do
    ! grep -rqF -e "$secret" salted salted-salt1.akv .cache || t_fail "found in a file: $secret"
    for command in "akv-inspect --json salted-salt1.akv" "akv-inspect --root -m model.gguf model.gguf" "akv-pin -s salted --list --json" \
        "akv-prefill -v -s salted -o /dev/null a.tok"; do
        AKV_SALT_FILE=salt1 t_sh 0 "$command 2>&1"
        ! grep -qF -e "$secret" "$t_stdout" || t_fail "printed by $command"
    done
done
t_begin "C7 a salt file that is short, absent, or not the user's alone is refused, its content not shown"
printf '15 bytes of it.' >short && chmod 600 short
AKV_SALT_FILE=short t_run 2 akv-prefill a.tok
t_err_line 'salt: 15 bytes: at least 16 are needed'
AKV_SALT_FILE=none t_run 5 akv-prefill a.tok
t_err_line '^akv-prefill: none: cannot'
for mode in 604 620 660 644; do
    chmod $mode salt1
    AKV_SALT_FILE=salt1 t_run 5 akv-prefill -o /dev/null a.tok
    t_err_line "^akv-prefill: salt1: not a secret: "
done
chmod 640 salt1
AKV_SALT_FILE=salt1 t_run 0 akv-prefill -o again.akv a.tok
t_same again.akv salted-salt1.akv
t_begin "C7 nothing else sets a salt"
t_run 2 akv-prefill --salt x a.tok
jq -c '. + {salt: "the first secret of 16+ bytes", gen: {max_tokens: 8}}' a.tok >request.tok
t_run 0 akv-prefill -o request.akv request.tok
t_is "$(akv-inspect --json request.akv | jq -r 'select(.type == "H").root')" "$old" "the root"
t_end
