# akv-pin --verify: what is damaged leaves the store and is named, and so is what depended on it; --deep computes it again.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"
t_needs tiny jq xxhsum sha256sum

export AKV_MODEL=$TINY
jq -nc '{akv: "tokens/1", id: "a", n: 250, tokens: [range(250) | (. * 7 + 11) % 300]}' >a.tok
jq -nc '{akv: "tokens/1", id: "b", n: 70, tokens: [range(70) | (. * 5 + 3) % 300]}' >b.tok
for x in a b; do akv-prefill -o $x.akv $x.tok && akv-pin -q -s whole $x <$x.akv || exit 1; done
n_objects=6
answer='jq -c "[.text, .tokens]"'
t_sh 0 "akv-gen -n 8 --json a.tok | $answer >cold.json"

t_begin "a whole store: nothing is found, nothing is changed"
find whole -type f ! -name lock -exec sha256sum {} + | sort >before
t_run 0 akv-pin -s whole --verify
t_out "^$n_objects objects of [0-9]+ bytes: 0 damaged, 0 unreadable, 0 built on those, 0 without a predecessor; 2 pins, 0 broken\$"
t_is "$(wc -l <"$t_stdout")" 1 "lines on stdout"
t_run 0 akv-pin -s whole --verify -@ 1 --json
t_is "$(jq -c '[.objects, .damaged, .unreadable, .depends, .open, .pins, .broken_pins]' "$t_stdout")" "[$n_objects,0,0,0,0,2,0]" "counts"
find whole -type f ! -name lock -exec sha256sum {} + | sort >after
t_same before after

second=$(object whole 1 | grep -F -f <(akv-pin -s whole --manifest a | cut -c 67-)) # page 1 of a
second=${second#whole/}
# found KIND COUNT: findings of that kind in the JSON on stdout.
found() {
    t_is "$(jq -s --arg k "$1" 'map(select(.finding == $k)) | length' "$t_stdout")" "$2" "the number of findings '$1'"
}
# damaged WHY: what --verify says and does after store/$second was made something else.
damaged() {
    local name=${second#objects/} kept
    sha256sum <"store/$second" >was
    t_run 1 akv-pin -s store --verify --json
    found damaged 1
    t_is "$(jq -r 'select(.finding == "damaged").what' "$t_stdout")" "$name" "the damaged object"
    jq -r 'select(.finding == "damaged").why' "$t_stdout" | grep -qE "$1" || t_fail "the reason is not like: $1"
    found depends 2
    t_is "$(jq -r 'select(.finding == "depends").why' "$t_stdout" | sort -u)" "built on $name" "what they depend on"
    found pin 1
    t_is "$(jq -r 'select(.finding == "pin").what' "$t_stdout")" a "the pin"
    t_err_is_one
    kept=$(find store/quarantine -type f ! -name '*.why')
    t_is "$(sha256sum <"$kept")" "$(cat was)" "what is in quarantine"
    t_is "$(sed -n 1p "$kept.why")" "object $name" "the place in its reason"
    sed -n 2p "$kept.why" | grep -qE "^reason .*($1)" || t_fail "the reason in quarantine is not like: $1"
    t_run 0 akv-pin -s store --quarantine --json
    t_is "$(jq -c '[.name, .bytes]' "$t_stdout")" "[\"$(basename "$kept")\",$(stat -c %s "$kept")]" "what the list of the quarantine says"
    jq -r .reason "$t_stdout" | grep -qE "$1" || t_fail "the reason in the list is not like: $1"
    # the rest can still be used, and computing again heals it
    t_sh 0 "akv-gen -q -n 8 --json -s store --save --stats=stats a.tok | $answer"
    t_out_is cold.json
    t_is "$(jq -r .cached_tokens stats)" 64 "tokens before the damage"
    rm stats
    t_run 0 akv-pin -s store --verify
}
t_err_is_one() {
    t_is "$(wc -l <"$t_stderr")" 1 "the lines on stderr"
    t_err '^akv-pin: store: 1 of 6 objects are damaged, 0 cannot be read; 1 of 2 pins are broken$'
}
fresh() {
    rm -rf store && cp -a whole store
}

t_begin "a bit of the body"
fresh
size=$(stat -c %s "store/$second")
printf '\xa5' | patch "store/$second" $((size - 200))
damaged 'damaged|differs|SHA-256'
t_begin "a bit of the header"
fresh
printf '\xa5' | patch "store/$second" 60
damaged 'damaged|checksum|XXH64|differ'
t_begin "cut short"
fresh
truncate -s -1 "store/$second"
damaged 'truncated'
t_begin "empty"
fresh
: >"store/$second"
damaged 'empty'
t_begin "something behind it"
fresh
cat b.akv >>"store/$second"
damaged 'not one page|root|section'
t_begin "another object under its name"
fresh
cp "$(object whole 2)" "store/$second"
damaged 'holds another page'
t_begin "another model's page under its name"
fresh
"$AKV_BUILD/tests/mkmodel" --seed 7 -o other.gguf && rm -rf other && akv-prefill -m other.gguf a.tok | akv-pin -q -s other a
cp "$(object other 1)" "store/$second"
damaged 'holds another page'

t_begin "the quarantine as a list for people; one that is empty, and one without reasons"
t_run 0 akv-pin -s store --quarantine
t_out '^[0-9a-f]{64}\.0 +[0-9]+ bytes  since 2[0-9]{3}-.*Z  .*holds another page$'
rm store/quarantine/*.why
t_run 0 akv-pin -s store --quarantine --json
t_is "$(jq -r .reason "$t_stdout")" "" "the reason"
rm -r store/quarantine
t_run 0 akv-pin -s store --quarantine
t_out_is /dev/null

t_begin "names and reasons that are no UTF-8 are JSON nevertheless"
odd=$'odd\xffstore'
fresh
printf '\xa5' | patch "store/$second" 60
rm -rf "$odd" && mv store "$odd"
sed -i 's/^made-by .*/made-by h\xffnd/' "$odd"/refs/*/b
t_run 1 akv-pin -s "$odd" --verify --json
found damaged 1
jq -r 'select(.finding == "damaged").why' "$t_stdout" | grep -q '^odd�store/objects/' || t_fail "the reason has no place"
t_run 0 akv-pin -s "$odd" --quarantine --json
jq -r .reason "$t_stdout" | grep -q '^odd�store/objects/' || t_fail "the reason in quarantine has no place"
t_run 0 akv-pin -s "$odd" --list --json
t_is "$(jq -r 'select(.name == "b").made_by' "$t_stdout")" 'h�nd' "made_by"
t_begin "a name that can drive a terminal: no pin gets one; one that is there is shown without, holds its pages, can be renamed"
odd=$'x\xc2\x9b31m' shown='x\\xc2\\x9b31m'
fresh
t_run 2 akv-pin -s store --rename b "$odd"
t_err_line "^akv-pin: pin name '$shown': it holds a control character\$"
t_run 2 akv-pin -s store "$odd" <b.akv
t_err_line "^akv-pin: pin name '$shown': it holds a control character\$"
for ref in store/refs/*/b; do mv "$ref" "${ref%b}$odd"; done
t_run 0 akv-pin -s store --list
t_out "^$shown "
t_run 0 akv-pin -s store --gc --force
t_is "$(find store/objects -type f | wc -l)" $n_objects "objects"
find store/objects -type f -delete
t_run 1 akv-pin -s store --verify
! grep -q $'\x9b' "$t_stdout" || t_fail "a terminal is driven by what is found"
fresh
for ref in store/refs/*/b; do mv "$ref" "${ref%b}$odd"; done
t_run 0 akv-pin -s store --export "$odd"
t_run 0 akv-pin -s store --rename "$odd" b
t_run 0 akv-pin -s store --remove b
t_begin "not a file"
fresh
rm "store/$second" && mkdir "store/$second"
t_run 1 akv-pin -s store --verify --json
found pin 1
t_is "$(jq -r .damaged "$t_stdout" | tail -n 1)" 1 "damaged"
t_begin "what stands in the place of a directory of objects is named: none can be kept there"
for kind in file link; do
    fresh
    t_run 0 akv-pin -s store --remove a
    t_run 0 akv-pin -s store --remove b
    rm -rf store/objects/96 store/objects/0f
    n_left=$(find store/objects -type f | wc -l)
    if [ $kind = file ]; then : >store/objects/96; else ln -s ../tmp store/objects/96; fi
    find store ! -name lock | sort >before
    t_run 1 akv-pin -s store --verify --json
    found unreadable 1
    t_is "$(jq -r 'select(.finding == "unreadable") | .what + " " + .why' "$t_stdout")" \
        "96 store/objects/96: not a directory: no object can be kept there" "what is found"
    t_is "$(tail -n 1 "$t_stdout" | jq -c '[.objects, .damaged, .unreadable]')" "[$n_left,0,1]" "counts"
    t_err '^akv-pin: store: 0 of [0-9]+ objects are damaged, 1 cannot be read; 0 of 0 pins are broken$'
    t_run 1 akv-pin -s store --verify
    t_out '^unreadable 96: store/objects/96: not a directory'
    find store ! -name lock | sort >after
    t_same before after
    # the others go on: they have nothing to do with it
    t_run 0 akv-pin -s store --list
    t_run 0 akv-pin -s store --gc --force --json
    t_is "$(jq -c '[.deleted, .objects]' "$t_stdout")" "[$n_left,0]" "what was collected"
    [ -e store/objects/96 ] || [ -L store/objects/96 ] || t_fail "it went"
done
if t_begin "directories that cannot be looked at are no empty ones" bound; then
    fresh
    chmod 600 store/objects
    for verb in --verify "--gc --force" "--gc --force --dry-run"; do
        # shellcheck disable=SC2086
        t_run 5 t_bound akv-pin -s store $verb
        t_err_line '^akv-pin: store/objects/00: cannot use the directory: Permission denied$'
    done
    chmod 700 store/objects
    t_is "$(find store/objects -type f | wc -l)" $n_objects "objects"
fi
t_begin "a page that is gone: its pin is named, what stands without it is counted"
fresh
rm "store/$second"
t_run 1 akv-pin -s store --verify --json
found damaged 0
found pin 1
t_is "$(tail -n 1 "$t_stdout" | jq -c '[.open, .broken_pins]')" '[2,1]' "counts"
t_run 0 akv-pin -s store --remove a
t_run 0 akv-pin -s store --verify --json
t_is "$(tail -n 1 "$t_stdout" | jq -c '[.open, .broken_pins]')" '[2,0]' "counts"
t_begin "a damaged pin"
fresh
ref=$(echo store/refs/*/a)
head -n 3 "$ref" >half && cat half >"$ref"
t_run 1 akv-pin -s store --verify
t_out '^pin a: .*damaged ref$'
t_run 3 akv-pin -s store --list
t_out '^b '
t_run 3 akv-pin -s store --gc --force
t_is "$(find store/objects -type f | wc -l)" $n_objects "objects that a collection left when a pin cannot be read"
t_run 0 akv-pin -s store --export b
t_run 0 akv-pin -s store --export --root "$(basename "$(dirname "$ref")")" b
t_run 3 akv-pin -s store --export --root "$(basename "$(dirname "$ref")")" a
t_err_line "^akv-pin: store: pin 'a': a damaged ref\$"
for root in "" "--root $(basename "$(dirname "$ref")")" "-m $TINY"; do # it can be taken away
    cat half >"$ref"
    # shellcheck disable=SC2086
    t_run 0 akv-pin -s store --remove a $root
    [ ! -e "$ref" ] || t_fail "the damaged pin is there after --remove $root"
done
t_run 1 akv-pin -s store --remove a
t_err_line '^akv-pin: a: no such pin$'
t_run 0 akv-pin -s store --gc --force
t_begin "a pin that says another root than its directory's: a damaged one, and a collection takes nothing for its sake"
fresh
sed -i 's/^root ./root f/' "$ref"
t_run 3 akv-pin -s store --gc --force
t_err_line "^akv-pin: store: pin 'a': its root is not that of its directory\$"
t_is "$(find store/objects -type f | wc -l)" $n_objects "objects"
t_run 1 akv-pin -s store --verify
t_out '^pin a: .*its root is not'
t_run 0 akv-pin -s store --remove a
t_begin "D13 an object of a later version, and one that may not be read: named, they stay"
fresh
chmod 666 "store/$second"
t_run 1 akv-pin -s store --verify --json
found unreadable 1
found damaged 0
[ -e "store/$second" ] || t_fail "it went"
t_is "$(find store/quarantine -type f | wc -l)" 0 "files in quarantine"

t_begin "--deep computes pages again, as many as are asked for"
fresh
t_run 0 akv-pin -s store --verify --deep --json
t_is "$(tail -n 1 "$t_stdout" | jq -c .)" "{\"pages\":$n_objects,\"recomputed\":$n_objects,\"wrong\":0,\"too_long\":0,\"depends\":0,\"broken_pins\":0}" \
    "what was computed"
t_run 0 akv-pin -s store --verify --deep=2
t_out "^2 of $n_objects pages of this model computed again: 0 wrong\$"
[ ! -s "$t_stderr" ] || t_fail "something is said of it"
for how in "" --json; do # a model that has nothing there: said, not only counted
    # shellcheck disable=SC2086 # none or one
    t_run 0 akv-pin -s store --verify --deep=all -m other.gguf $how
    t_is "$(cat "$t_stderr")" "akv-pin: the store has no page under the root of this model, KV type and salt: nothing was computed again" \
        "what is said"
done
t_run 0 akv-pin -s store --verify --deep=all -m other.gguf
t_out '^0 of 0 pages'
t_begin "KV bytes that are not those of the model have right checksums: only --deep finds them"
akv-prefill -m other.gguf -o other.akv a.tok
forge other.akv forged.akv "weights=$(akv-inspect --json other.akv | jq -r 'select(.type == "H").fields.weights')" \
    "weights=$(akv-inspect --json a.akv | jq -r 'select(.type == "H").fields.weights')"
rm -rf store && akv-pin -q -s store b <b.akv && akv-pin -q -s store liar <forged.akv
t_run 0 akv-pin -s store --verify
rm -rf text && cp -a store text
t_run 1 akv-pin -s store --verify --deep=all --json
found wrong 1
found depends 3
t_is "$(jq -r 'select(.finding == "depends").why' "$t_stdout" | sort -u)" "built on $(jq -r 'select(.finding == "wrong").what' "$t_stdout")" \
    "what they depend on"
jq -r 'select(.finding == "depends") | "object " + .what' "$t_stdout" | sort >named
t_is "$(jq -c 'select(.finding == "pin") | [.what, .why]' "$t_stdout")" \
    "[\"liar\",\"its page $(jq -r 'select(.finding == "wrong").what' "$t_stdout") is wrong\"]" "the pins found"
t_is "$(tail -n 1 "$t_stdout" | jq -c '[.wrong, .depends, .broken_pins]')" "[1,3,1]" "counts"
grep -lZ 'reason built on a page that was wrong' store/quarantine/*.why | xargs -0 grep -h '^object ' | sort >gone
t_same named gone
first=$(jq -r 'select(.finding == "wrong").what' "$t_stdout")
t_is "$(sed -n 's/^reason //p' store/quarantine/*.why | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" "3 1 " "pages built on it, and it"
grep -qxF "object $first" "$(grep -l 'reason computing the page again' store/quarantine/*.why)" || t_fail "another page is the first wrong one"
t_err 'exactness was broken'
t_is "$(find store/objects -type f | wc -l)" 2 "objects left"
t_is "$(find store/quarantine -type f ! -name '*.why' | wc -l)" 4 "objects in quarantine"
t_run 1 akv-pin -s store --verify
t_out '^pin liar: '
t_sh 0 "akv-gen -n 8 --json -s store a.tok | $answer"
t_out_is cold.json

t_begin "and for people: each that was built on it, in order, the pin, and their number"
t_run 1 akv-pin -s text --verify --deep=all
t_is "$(cut -d ' ' -f 1 "$t_stdout" | tr '\n' ' ')" "6 wrong depends depends depends pin 3 " "the lines"
t_out '^pin liar: its page [0-9a-f/]+\.akv is wrong$'
t_out '^3 of 6 pages of this model computed again: 1 wrong, 3 built on those; 1 pins broken$'
t_run 1 akv-pin -s text --verify --deep=all # what it is built on is gone: no page of the pin is named again
t_is "$(cut -d ' ' -f 1 "$t_stdout" | tr '\n' ' ')" "pin 2 2 " "the lines"

t_begin "wrong usage"
for args in "--verify x" "--verify --gc" "--deep --list" "--verify --deep=x" "--verify --force" "--kv f32 --verify" "--verify --all"; do
    # shellcheck disable=SC2086
    t_run 2 akv-pin -s store $args
    t_err_line '^akv-pin: '
done
t_run 1 akv-pin -s nowhere --verify
t_err_line 'no store'
t_run 2 akv-pin -s store --verify --deep -m ''
t_end
