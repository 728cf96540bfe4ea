# Identity of models and keys: what differs in anything that determines KV never meets.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
mkmodel=$AKV_BUILD/tests/mkmodel
text='Please write a short note to the others and tell them where to find us. When the user asks for the time of a meeting, look into
the calendar first, then answer with the time and the name of the room. It is warm and there is no chance of rain this morning.
What is the weather in the city today? The weather tool takes the name of a city and returns the temperature in degrees.'
printf '%s' "$text" | akv-tokenize --raw -o a.tok && printf '%s' "${text//the/a}" | akv-tokenize --raw -o b.tok || exit 1
akv-prefill -o a.akv a.tok && akv-prefill -o b.akv b.tok || exit 1
answer='jq -c "[.text, .tokens]"'
t_begin "the prompts here have more than two pages"
t_is "$(jq '.n > 130' a.tok b.tok | sort -u)" true "that they have 130 tokens"

# refused FIELD THEIRS OURS INPUT [OPTION...]: every tool that computes refuses the stream, naming the field and both values.
refused() {
    local field=$1 theirs=$2 ours=$3 input=$4 tool
    shift 4
    for tool in akv-gen akv-prefill akv-restore; do
        t_run 4 $tool "$@" <"$input"
        t_err_line "^$tool: standard input: record 1: $field is $theirs, here it is $ours\$"
    done
    t_run 4 akv-prefill "$@" --delta="$input" a.tok
    t_err_line "^akv-prefill: $input: record 1: $field is $theirs, here it is $ours\$"
    cat "$input" a.akv >joined.akv
    t_run 4 akv-inspect joined.akv
    t_err "$field"
}

t_begin "C3 another KV dtype"
akv-prefill --kv f32 -o f32.akv a.tok
refused kv f32 f16 f32.akv
t_run 4 akv-gen --kv f32 a.akv
t_err_line ': kv is f16, here it is f32$'
t_begin "C3 another RoPE base"
cp "$TINY" rope.gguf
key=llama.rope.freq_base
bytes 0000c842 | patch rope.gguf $(($(offset rope.gguf $key) + ${#key} + 4)) # 100.0, after the key's type
base=$(akv-inspect --root --json -m "$TINY" "$TINY" | jq -r 'select(.fields).fields["rope.base"]')
akv-prefill -m rope.gguf -o rope.akv a.tok
refused 'rope\.base' 42c80000 "$base" rope.akv
cmp -s rope.akv a.akv && t_fail "the base makes no difference"
if t_begin "C3 another page size, another numerics id, other ingredients" xxhsum sha256sum; then
    forge a.akv same.akv page=64 page=64
    t_same a.akv same.akv
    forge a.akv page.akv page=64 page=32
    refused page 32 64 page.akv
    numerics=$(akv-inspect --json a.akv | jq -r 'select(.type == "H").fields.numerics')
    other=$(printf '%s' "$numerics" | tr '0-8' '1-9')
    forge a.akv numerics.akv "numerics=$numerics" "numerics=$other"
    refused numerics "$other" "$numerics" numerics.akv
    forge a.akv layout.akv layout=k-dims layout=x-dims
    refused layout 'x-dims.*' 'k-dims.*' layout.akv
    forge a.akv absent.akv rope.style= rope.ttyle=
    refused 'rope\.style' absent pairs absent.akv
    t_run 0 akv-inspect --verify page.akv
fi
t_begin "C3 a store keeps two KV dtypes apart"
t_run 0 akv-prefill -s both --save -o /dev/null a.tok
t_sh 0 "akv-gen --kv f32 -n 8 --json a.tok | $answer >cold.json"
t_sh 0 "akv-gen --kv f32 -n 8 --json -s both --stats=stats a.tok | $answer >warm.json"
t_same cold.json warm.json
t_is "$(jq -c '[.hit, .cached_tokens]' stats)" '["none",0]' "hit"

# products DIRECTORY [COMMAND...]: everything that must not depend on where it was made, by way of a command.
products() {
    local out=$1
    shift
    mkdir "$out"
    jq -nc --arg t "$text" '{messages: [{role: "user", content: ($t + " İstanbul ıI ß 0,5")}], temperature: 0.25, top_p: 0.9, seed: 3,
        max_tokens: 9, stop: ["ı"]}' >"$out/chat.json"
    t_run 0 "$@" akv-tokenize --now 2026-01-15T12:00:00Z -o "$out/tok" "$out/chat.json"
    t_run 0 "$@" akv-split --keys --at 70 -o "$out/split" "$out/tok"
    t_run 0 "$@" akv-split --prefix=last -o "$out/prefix" "$out/split"
    t_run 0 "$@" akv-prefill -o "$out/akv" "$out/split"
    t_run 0 "$@" akv-gen -o "$out/reply" "$out/akv"
    t_run 0 "$@" akv-gen --json --logprobs 3 -o "$out/json" "$out/akv"
    jq -c 'del(.timings)' "$out/json" >"$out/json.kept" && rm "$out/json"
    t_sh 0 "$* akv-pin -q -s $out/store name <$out/akv"
    t_sh 0 "$* akv-pin -s $out/store --list --json | jq -c 'del(.used)' >$out/pins" # but for the time
    t_run 0 "$@" akv-pin -s "$out/store" --export name -o "$out/export"
    t_run 0 "$@" akv-inspect --json -o "$out/inspect" "$out/akv"
    t_run 0 "$@" akv-inspect --root -o "$out/model" "$TINY"
    (cd "$out" && find . -type f | LC_ALL=C sort | while read -r f; do sha256sum "$f"; done) >"$out.sums"
}
t_begin "C4 other processes, directories, homes and time zones: the same keys and bytes"
products here env
products there env HOME=/ XDG_CACHE_HOME="$T/other-cache" TZ=Asia/Tokyo PWD=/ AKV_CPU=scalar
t_same here.sums there.sums
t_begin "C4 LANG=tr_TR.UTF-8, LC_ALL=de_DE.UTF-8: the same keys and bytes"
products turkish env -u LC_ALL LANG=tr_TR.UTF-8
products german env LC_ALL=de_DE.UTF-8
t_same here.sums turkish.sums german.sums
mkdir locales
need='localedef'
for name in tr_TR de_DE; do
    localedef -i $name -f UTF-8 locales/$name.UTF-8 >/dev/null 2>&1 || need='locales to compile'
done
if t_begin "C4 the same with a host process that has set its locale" plain gcc "$need"; then
    cat >host.c <<'C'
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void host(void)
{
    if (!setlocale(LC_ALL, "")) {
        fputs("no such locale\n", stderr);
        exit(99);
    }
}
C
    t_run 0 gcc -shared -fPIC -o host.so host.c
    products turkish-host env LOCPATH="$T/locales" LD_PRELOAD="$T/host.so" LC_ALL=tr_TR.UTF-8
    products german-host env LOCPATH="$T/locales" LD_PRELOAD="$T/host.so" LC_ALL=de_DE.UTF-8
    t_same here.sums turkish-host.sums german-host.sums
fi

# A store with a's pages, whose page PAGE is replaced by another object: a miss there, quarantined, and the answer is right.
# replaced PAGE SOURCE
replaced() {
    rm -rf store stats
    t_run 0 akv-prefill -s store --save -o /dev/null a.tok
    local name
    name=$(object store "$1")
    cp "$2" "$name"
    t_sh 0 "akv-gen -n 8 --json -s store --stats=stats a.tok | $answer >warm.json"
    t_same cold.json warm.json
    t_is "$(jq -c '[.hit, .cached_tokens]' stats)" "[\"$([ "$1" -gt 0 ] && echo partial || echo none)\",$(($1 * 64))]" "what was used"
    t_is "$(jq -r .miss stats | grep -c "^page $1: ")" 1 "that the miss names the page"
    t_err '^akv-gen: '
    [ ! -e "$name" ] || t_fail "the object is still there"
    t_is "$(find store/quarantine -type f -exec cmp -s {} "$2" \; -print | wc -l)" 1 "copies of it in quarantine"
    # healed by the next save
    t_run 0 akv-prefill -q -s store --save -o warm.akv a.tok
    t_same a.akv warm.akv
    rm stats
    t_run 0 akv-prefill -s store --stats=stats -o warm.akv a.tok
    t_same a.akv warm.akv
    t_is "$(jq -r .hit stats)" full "hit after the page was saved again"
}
t_sh 0 "akv-gen -n 8 --json a.tok | $answer >cold.json"
for page in 0 1; do
    t_begin "C5 an object with the right name and other token ids, page $page: a miss, quarantined"
    rm -rf others && akv-prefill -s others --save -o /dev/null b.tok
    replaced $page "$(object others $page)"
done
t_begin "C6 an object that was renamed to another key: a miss, quarantined"
rm -rf others && akv-prefill -s others --save -o /dev/null a.tok
replaced 1 "$(object others 0)"
t_begin "C5 an object of another model under the right name"
"$mkmodel" --seed 7 -o other.gguf
rm -rf others && akv-prefill -m other.gguf -s others --save -o /dev/null a.tok
replaced 1 "$(object others 1)"

t_begin "C8 two models in one store: no cross hits, and the list tells them apart"
for model in "$TINY" other.gguf; do
    rm -f stats
    t_sh 0 "akv-gen -m $model -n 8 --json a.tok | $answer >cold.json"
    t_sh 0 "akv-gen -m $model -n 8 --json -s two --save --stats=stats a.tok | $answer >warm.json"
    t_same cold.json warm.json
    t_is "$(jq -c '[.hit, .cached_tokens]' stats)" '["none",0]' "hit of $model"
    t_sh 0 "akv-prefill -m $model a.tok | akv-pin -q -s two agent"
done
for model in "$TINY" other.gguf; do
    rm -f stats
    t_sh 0 "akv-gen -m $model -n 8 --json a.tok | $answer >cold.json"
    t_sh 0 "akv-restore -m $model -s two --stats=stats a.tok | akv-gen -m $model -n 8 --json | $answer >warm.json"
    t_same cold.json warm.json
    t_is "$(jq -r .hit stats)" full "hit of $model"
done
t_run 0 akv-pin -s two --list
t_is "$(grep -c '^agent ' "$t_stdout")" 2 "pins of that name"
t_is "$(grep -oE 'root [0-9a-f]{16}' "$t_stdout" | sort -u | wc -l)" 2 "roots"
t_run 2 akv-pin -s two --export agent
root=$(akv-pin -s two --list --json | jq -r .root | head -n 1)
t_err "${root:0:8}"
t_sh 0 "akv-pin -s two --export agent --root $root | akv-inspect --json | jq -r 'select(.type == \"H\").root'"
t_is "$(cat "$t_stdout")" "$root" "the root exported"
t_begin "C3 which of two pins is meant: -m says it, AKV_MODEL does not, as the words have it"
for verb in --remove --manifest --export; do
    t_run 2 env AKV_MODEL="$TINY" akv-pin -s two $verb agent
    t_err_line "stands under 2 roots: "
done
t_is "$(akv-pin -h | tr -s ' \n' ' ' | grep -c 'default: \$AKV_MODEL); this option alone: .* its root is meant')" 1 "lines of -h"
t_run 0 env AKV_MODEL=other.gguf akv-pin -s two --remove -m "$TINY" agent
t_is "$(akv-pin -s two --list --json | jq -r .root)" "$(akv-inspect --root --json other.gguf | jq -r .root)" "the root left"
t_end
