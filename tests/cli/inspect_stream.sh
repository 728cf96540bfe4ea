# akv-inspect of streams: described, verified quickly and in full, compared.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/forge.sh"

t_needs tiny jq xxhsum
export AKV_MODEL=$TINY
"$AKV_BUILD/tests/mkmodel" --seed 7 -o other.gguf
# record IDS...: a token record.
record() {
    printf '{"akv":"tokens/1","id":"r","n":%d,"tokens":[%s]}\n' $# "$(IFS=, && echo "$*")"
}
# shellcheck disable=SC2046 # numbers
{
    record $(seq 1 140) >a.tok
    record $(seq 1 129) 7 $(seq 131 140) >b.tok
    record $(seq 1 70) >short.tok
}
for name in a b short; do akv-prefill -q $name.tok >$name.akv; done
akv-prefill -q -m other.gguf a.tok >other.akv
akv-prefill -q --kv f32 a.tok >f32.akv

t_begin "a stream for eyes: root, ingredients, pages, request, tip, totals"
t_run 0 akv-inspect a.akv
t_out '^H  root [0-9a-f]{64}$'
t_out '^   2 layers, 2 kv heads, 32 \+ 32 dims, f16, 512 bytes per token$'
t_out '^    numerics +[0-9]+$'
t_out '^P  [0-9a-f]{16}  page 2, 12 tokens, (raw|planes) 6144 -> [0-9]+ bytes \([0-9.]+\)$'
t_out '^Q  r: 140 tokens$'
t_out '^E  tip [0-9a-f]{16}$'
t_out '^3 pages, 140 tokens, 1 requests, 1 sections, 71680 -> [0-9]+ bytes \([0-9.]+\)$'

t_begin "as JSON: a record a line, the totals last"
t_run 0 akv-inspect --json a.akv
t_is "$(jq -rj .type "$t_stdout")" HPPPQEtotals "the types"
t_is "$(jq -sc '.[-1].tokens == ([.[] | select(.type == "P").n] | add) and .[-1].coded_bytes == ([.[].coded_bytes? // 0] | add) / 2' "$t_stdout")" \
    true "the totals"

t_begin "the text only when asked, with a model; in JSON as a member of the page"
t_is "$(akv-inspect a.akv | grep -c '"')" 0 "the number of lines with text"
t_run 2 env -u AKV_MODEL akv-inspect --text a.akv
t_run 0 akv-inspect --text -m "$TINY" a.akv
t_is "$(grep -c '^    "' "$t_stdout")" 3 "the number of texts"
echo 'Two lines
of plain text.' | akv-tokenize --raw | akv-prefill -q >text.akv
t_sh 0 "akv-inspect --json --text text.akv | jq -j 'select(.type == \"P\").text'"
t_out_is <(printf 'Two lines\nof plain text.\n')
t_run 0 akv-inspect --text text.akv
t_out '^    "Two lines\\nof plain text.\\n"$'

t_begin "the text of another tokenizer's ids is none: refused, as akv-tokenize --decode does; a head that does not name it is taken"
cp "$TINY" words.gguf
key=tokenizer.ggml.bos_token_id
at=$(($(offset words.gguf $key) + ${#key} + 4))
bytes "$(printf '%02x' $(($(od -An -tu1 -j $at -N 1 words.gguf) + 1)))" | patch words.gguf $at
for how in "" --quick --json; do
    # shellcheck disable=SC2086 # none or one
    t_run 4 akv-inspect --text $how -m words.gguf text.akv
    t_err_line '^akv-inspect: text\.akv: record 1: made with another tokenizer: its digest is [0-9a-f]{12}…, the model.s is [0-9a-f]{12}…$'
done
t_is "$(jq -r .tokenizer.sha256 <(akv-inspect --json words.gguf) | cut -c 1-12)" "$(sed -E 's/.*is ([0-9a-f]+)…$/\1/' "$t_stderr")" \
    "the model's digest"
t_is "$(akv-inspect --json text.akv | jq -r '.fields.tokenizer // empty' | cut -c 1-12)" \
    "$(sed -E 's/.*its digest is ([0-9a-f]+)….*/\1/' "$t_stderr")" "the stream's digest"
t_run 4 akv-tokenize --decode -m words.gguf <(akv-tokenize --raw <<<"Two lines")
t_run 0 akv-inspect -m words.gguf text.akv
t_run 0 akv-inspect --text -m other.gguf text.akv # other weights alone
forge text.akv unnamed.akv tokenizer tokenizeR
t_run 0 akv-inspect --text -m words.gguf unnamed.akv
t_out '^    "Two lines\\nof plain text.\\n"$'

t_begin "verify, from a pipe too: quick takes the coded bodies' checksums, in full they are decoded"
for how in --verify "--verify --quick"; do
    t_sh 0 "cat a.akv | akv-inspect $how"
    t_out '^standard input: ok: 3 pages, 140 tokens, 1 requests( \(quick\))?$'
done
t_run 0 akv-inspect --verify --quick a.akv b.akv
t_is "$(grep -c ' (quick)$' "$t_stdout")" 2 "the number of answers"
cp a.akv bad.akv
size=$(stat -c %s a.akv)
printf '\xff' | dd of=bad.akv bs=1 seek=$((size / 2)) conv=notrunc status=none
for how in --verify "--verify --quick"; do
    t_sh 1 "akv-inspect $how bad.akv"
    t_err_line 'record [0-9]+ at offset [0-9]+: page [0-9]+: the body is damaged'
    t_sh 1 "head -c $((size - 1)) a.akv | akv-inspect $how"
    t_err_line 'truncated'
done
t_run 0 akv-inspect --quick bad.akv # headers only
t_begin "verify: files that are empty or nothing that is known are wrong, and the others are looked at"
: >empty
head -c 3000 a.tok >text
t_run 1 akv-inspect --verify empty a.akv text b.akv
t_is "$(grep -c ': ok: ' "$t_stdout")" 2 "good files"
t_err '^akv-inspect: empty: empty input$'
t_err '^akv-inspect: text: neither an akv stream nor a GGUF model$'
t_begin "verify as JSON: a finding an object, and the totals, like akv-pin's"
odd=$'odd\xff"name'
cp bad.akv "$odd"
head -c $((size - 1)) a.akv >cut.akv
t_run 1 akv-inspect --verify --json a.akv bad.akv empty "$odd" b.akv cut.akv
t_is "$(head -n -1 "$t_stdout" | jq -c '[keys_unsorted, .finding, .what]')" '[["finding","what","why"],"damaged","bad.akv"]
[["finding","what","why"],"damaged","empty"]
[["finding","what","why"],"damaged","odd�\"name"]
[["finding","what","why"],"damaged","cut.akv"]' "the findings"
t_is "$(head -n 1 "$t_stdout" | jq -r .why | grep -cE 'record [0-9]+ at offset [0-9]+: page [0-9]+: the body is damaged')" 1 "the reason"
t_is "$(tail -n 1 "$t_stdout")" '{"files":6,"damaged":4,"unreadable":0,"pages":6,"tokens":280,"requests":2}' "the totals"
t_is "$(wc -l <"$t_stderr")" 4 "lines on stderr"
t_run 0 akv-inspect --verify --quick --json a.akv
t_is "$(cat "$t_stdout")" '{"files":1,"damaged":0,"unreadable":0,"pages":3,"tokens":140,"requests":1}' "the totals of one"
t_sh 1 'akv-inspect --verify --json -o findings <bad.akv'
t_is "$(jq -c '[.finding, .what, .files]' findings)" '["damaged","standard input",null]
[null,null,1]' "the findings on standard input"
t_run 1 akv-inspect --verify --json empty
t_is "$(jq -c .finding "$t_stdout")" '"damaged"
null' "the findings of an empty file"

t_begin "compared with itself, from a file or a pipe: equal, exit 0"
t_run 0 akv-inspect --diff a.akv a.akv
t_out '^a.akv and a.akv are equal: 3 pages, 1 requests$'
t_sh 0 'cat a.akv | akv-inspect --diff - a.akv'
t_run 0 akv-inspect --diff --json a.akv a.akv
t_is "$(jq -c '[.type, .equal, .pages, .pages_differ, .fields, .layers]' "$t_stdout")" '["diff",true,3,0,[],null]' "the JSON"

t_begin "other ids: where they part, and the pages that only one has"
t_run 1 akv-inspect --diff a.akv b.akv
t_out '^  pages +2 in both, 0 of them differ$'
t_out '^  only in one +1 pages, 12 tokens \| 1 pages, 12 tokens$'
t_out '^  ids +part at token 129: 130 \| 7$'
t_out '^  requests +1 \| 1, 1 differ$'
[ ! -s "$t_stderr" ] || t_fail "words on stderr"
t_run 1 akv-inspect --diff a.akv short.akv
t_out '^  ids +part at token 70: 71 \| the end$'
t_run 1 akv-inspect --diff --json short.akv a.akv
t_is "$(jq -c '[.ids.at, .ids.a, .ids.b, .a.only_tokens, .b.only_tokens]' "$t_stdout")" '[70,null,71,6,76]' "the JSON"

t_begin "another model: the ingredient and both values, KV layer by layer as the raw bytes give it"
t_run 1 akv-inspect --diff a.akv other.akv
t_out '^  weights +[0-9a-f]{64} \| [0-9a-f]{64}$'
t_out '^  pages +3 in both, 3 of them differ$'
t_out '^  KV +differs first at token 0, layer 0$'
t_run 1 akv-inspect --diff --json a.akv other.akv
cp "$t_stdout" diff.json
t_is "$(jq -c '[.fields[].tag]' diff.json)" '["weights"]' "the fields"
for name in a other; do akv-inspect --raw $name.akv | od -An -v -tu2 -w2 >$name.bits; done
# Per layer of 2 heads: K of 32 dims, then V; pages of 64, 64 and 12 tokens.
paste a.bits other.bits | awk '
    function f16(h,   s, e, m) {
        s = h >= 32768 ? -1 : 1; h %= 32768; e = int(h / 1024); m = h % 1024
        return s * (e ? (1024 + m) * 2 ^ (e - 25) : m * 2 ^ -24)
    }
    function abs(x) { return x < 0 ? -x : x }
    BEGIN { split("64 64 12", n); page = 1 }
    {
        per = n[page] * 32; part = int(at / per); layer = int(part / 4); kv = part % 2 ? "v" : "k"
        d = abs(f16($1) - f16($2)); sum[layer, kv] += d; count[layer, kv]++
        if (d > max[layer, kv]) max[layer, kv] = d
        if (++at == per * 8) { at = 0; page++ }
    }
    END {
        for (layer = 0; layer < 2; layer++)
            printf "%.6g %.6g %.6g %.6g\n", max[layer, "k"], sum[layer, "k"] / count[layer, "k"], max[layer, "v"], sum[layer, "v"] / count[layer, "v"]
    }' >want
jq -r '.layers[] | [.k_max, .k_mean, .v_max, .v_mean] | map(tostring) | join(" ")' diff.json | awk '{ printf "%.6g %.6g %.6g %.6g\n", $1, $2, $3, $4 }' >got
t_same want got
t_is "$(jq '[.layers[].values] | add' diff.json) $(jq '[.layers[].differ] | add' diff.json)" \
    "$(wc -l <a.bits) $(paste a.bits other.bits | awk '$1 != $2' | wc -l)" "the values, and those that differ"

t_begin "another KV type: compared as numbers"
t_run 1 akv-inspect --diff a.akv f32.akv
t_out '^  kv +f16 \| f32$'
t_is "$(akv-inspect --diff --json a.akv f32.akv | jq -c '.same_shape and ([.layers[].k_max] | max < 1)')" true "close"

t_begin "another shape: said, and no KV compared"
"$AKV_BUILD/tests/mkmodel" --layers 3 -o deep.gguf
akv-prefill -q -m deep.gguf a.tok >deep.akv
t_run 1 akv-inspect --diff a.akv deep.akv
t_out '^  layers +2 \| 3$'
t_out '3 of them differ \(3 not compared value by value\)$'
! grep -q 'K max' "$t_stdout" || t_fail "layers are compared"

t_begin "the order of pages and sections does not matter, damage does"
cat short.akv b.akv >joined.akv
cat b.akv short.akv >swapped.akv
t_run 1 akv-inspect --diff --json joined.akv swapped.akv
t_is "$(jq -c '[.pages_differ, .a.only_pages, .b.only_pages, .ids, .requests_differ]' "$t_stdout")" '[0,0,0,null,2]' "the JSON"
t_run 3 akv-inspect --diff a.akv bad.akv
t_err_line '^akv-inspect: bad.akv: record [0-9]+ .*damaged'
t_run 3 akv-inspect --diff a.akv "$TINY"
t_run 2 akv-inspect --diff a.akv
t_run 2 akv-inspect --diff a.akv b.akv other.akv
t_run 2 akv-inspect --diff - - <a.akv
t_run 2 akv-inspect --diff --verify a.akv b.akv
t_end
