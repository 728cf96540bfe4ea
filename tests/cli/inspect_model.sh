# akv-inspect of models: what the file holds, for eyes and as JSON, whether or not it can be run.
. "$(dirname "$0")/../lib.sh"

t_needs tiny jq "$AKV_BUILD/tests/splitmodel"
mkmodel=$AKV_BUILD/tests/mkmodel

t_begin "a model for eyes: sizes, types, KV, tokenizer, template, ingredients, what can be done"
"$mkmodel" -o m.gguf --dtype q4_1 --layers 2 --width 64 --heads 4 --kv-heads 2 --ff 128 --ctx 512
t_run 0 akv-inspect m.gguf
t_is "$(head -n 1 "$t_stdout")" m.gguf "the first line"
t_out '^  model +.*, architecture llama, [0-9]+ parameters$'
t_out "^  file +GGUF version 3, $(stat -c %s m.gguf) bytes\$"
t_out '^  sizes +layers 2, width 64, ff 128, heads 4, kv heads 2, K dims 16, V dims 16, context 512$'
t_out '^  weights +Q4_1 +16 tensors +76800 bytes$'
t_out '^ +F32 +5 tensors +1280 bytes$'
t_out '^  KV +256 bytes per token in f16, 512 in f32$' # 2 layers x 2 heads x (16 + 16)
t_out '^  tokenizer +gpt2, pre-tokenizer [a-z0-9-]+, [0-9]+ tokens$'
t_out '^ +bos .*, eos [0-9]+ ".+", unk '
t_out '^ +ends generation: [0-9]+ ".+"'
t_out '^  chat template +the default \([0-9]+ bytes\)$'
t_out '^  root +not computed: --root hashes the weights$'
t_out '^    numerics +[0-9]+$'
t_out '^    rope.style +pairs$'
t_out '^  can be run$'
! grep -qE '^ +weights +[0-9a-f]{64}' "$t_stdout" || t_fail "a digest of the weights, which nobody asked for"

t_begin "--root is the root of the streams that the model makes, its ingredients theirs"
echo '{"akv":"tokens/1","id":"r","n":3,"tokens":[72,105,33]}' | akv-prefill -q -m m.gguf >m.akv
akv-inspect --json m.akv | jq -Sc 'select(.type == "H") | {root, fields}' >want
t_sh 0 'akv-inspect --json --root m.gguf | jq -Sc "{root, fields}"'
t_out_is want
t_run 0 akv-inspect --root m.gguf
t_out "^  root +$(jq -r .root want)\$"
t_out "^    weights +$(jq -r .fields.weights want)\$"
jq -Sc '.fields | del(.weights)' want >known
t_sh 0 'akv-inspect --json m.gguf | jq -Sc .fields'
t_out_is known

t_begin "as JSON, one line: numbers and words of the same"
t_run 0 akv-inspect --json m.gguf
t_is "$(wc -l <"$t_stdout")" 1 "the number of lines"
t_is "$(jq -c '[.type, .runs, .tokenizes, .layers, .heads, .kv_heads, .kv_bytes_per_token.f16, .kv_bytes_per_token.f32, .parts, .tied]' "$t_stdout")" \
    '["model",true,true,2,4,2,256,512,1,false]' "what it says"
t_is "$(jq '.tensor_bytes == ([.tensors[].bytes] | add) and .parameters > 0 and .file_bytes > .tensor_bytes' "$t_stdout")" true "the sums"
t_is "$(jq -r '.tokenizer.sha256 == .fields.tokenizer' "$t_stdout")" true "the tokenizer's digest"

t_begin "a split model is described as one, with its parts"
"$AKV_BUILD/tests/splitmodel" m.gguf part 3
akv-inspect --json --root m.gguf | jq -Sc 'del(.path, .file_bytes, .parts)' >want
t_sh 0 'akv-inspect --json --root part-00001-of-00003.gguf | jq -Sc "del(.path, .file_bytes, .parts)"'
t_out_is want
t_run 0 akv-inspect part-00001-of-00003.gguf
t_out "bytes in 3 parts\$"
mv part-00002-of-00003.gguf away
t_run 0 akv-inspect part-00001-of-00003.gguf
t_out '^  cannot be run: part-00002-of-00003.gguf: cannot open: '
t_out '^  text can be tokenized$'

# changed FROM TO: m.gguf with one text replaced by another of the same length.
changed() {
    LC_ALL=C sed "s/$1/$2/g" m.gguf >changed.gguf
    t_is "$(stat -c %s changed.gguf)" "$(stat -c %s m.gguf)" "the size"
    ! cmp -s m.gguf changed.gguf || t_fail "$1 is not in the model"
}

t_begin "an architecture that is not built, a recurrent one: described with the reason, exit 0"
changed llama lxmax
t_run 0 akv-inspect changed.gguf
t_out 'architecture lxmax'
t_out '^  sizes +layers 2, width 64, ff 128, heads 4, kv heads 2'
t_out '^  cannot be run: architecture lxmax: not supported \(supported: llama, '
t_out '^  text can be tokenized$'
t_is "$(akv-inspect --json changed.gguf | jq -c '[.runs, .tokenizes, .layers, .fields, .reasons[].what]')" '[false,true,2,null,"run"]' "the JSON"
t_run 4 akv-inspect --root changed.gguf
t_err_line 'architecture lxmax: not supported'
changed llama rwkv7
t_run 0 akv-inspect changed.gguf
t_out '^  cannot be run: architecture rwkv7: it keeps a recurrent state'

t_begin "a pre-tokenizer that is not known: named with those that are; --pre overrides"
pre=$(akv-inspect --json m.gguf | jq -r .tokenizer.pre)
changed "$pre" "${pre//?/x}"
t_run 0 akv-inspect changed.gguf
t_out "^  cannot be run: tokenizer.ggml.pre: unknown pre-tokenizer 'x+' \(known: .*gpt-2"
t_out '^  text cannot be tokenized$'
t_is "$(akv-inspect --json changed.gguf | jq -c '[.runs, .tokenizes, .layers, .kv_bytes_per_token.f16]')" '[false,false,2,256]' "the JSON"
t_run 0 akv-inspect --pre "$pre" changed.gguf
t_out '^  can be run$'

t_begin "the vocabulary alone, and a file cut in its tensors, are described as far as they go"
"$mkmodel" -o vocab.gguf --vocab-only
t_run 0 akv-inspect vocab.gguf
t_out '^  cannot be run: '
t_out '^  text can be tokenized$'
head -c $(($(stat -c %s m.gguf) - 100)) m.gguf >cut.gguf
t_run 0 akv-inspect cut.gguf
t_out '^  cannot be run: tensor .*truncated'
t_out '^  sizes +layers 2, '

t_begin "a name that is no text, and one with a newline, stay on their line"
name=$'odd\nname\xff.gguf'
cp m.gguf "$name"
t_run 0 akv-inspect "$name"
t_is "$(head -n 1 "$t_stdout")" 'odd\x0aname'$'\xef\xbf\xbd''.gguf' "the first line"
t_run 0 akv-inspect --json "$name"
t_is "$(wc -l <"$t_stdout") $(jq -r '.path | length' "$t_stdout")" '1 14' "the path"

# Every model of the reference data, by its name: architecture, type of the matrices.
models=()
[ -z "$SHARED" ] || models=("$SHARED"/golden/models/*.gguf)
if t_begin "all reference models say what their names say, and that they can be run" shared; then
    for model in "${models[@]}"; do
        name=$(basename "$model" .gguf) arch=${name%%-*}
        dtype=${name##*-}
        t_run 0 akv-inspect "$model"
        t_out "architecture ${arch/llama3/llama}, "
        t_out '^  can be run$'
        t_out "^  (weights)? +${dtype^^} +[0-9]+ tensors"
        [ "$arch" != gemma3 ] || t_out '^    window.layers +[lg]+$'
        t_sh 0 "akv-inspect --json '$model' | jq -e '.runs and (.tensors.${dtype^^}.tensors > 1) and (.reasons == null)'"
    done
fi
if t_begin "all malformed models are described or refused, the same for eyes and as JSON" shared; then
    for model in "$SHARED"/golden/models/bad/*.gguf; do
        akv-inspect -q "$model" >eyes 2>words
        status=$?
        t_run $status akv-inspect -q --json "$model"
        [ $status -ne 0 ] || jq -e '.type == "model" and (.runs or (.reasons | length > 0))' "$t_stdout" >/dev/null || t_fail "$model: the JSON"
        [ $status -ne 0 ] || [ "$(grep -c 'cannot be run: ' eyes)" = "$(jq '[.reasons[]? | select(.what == "run")] | length' "$t_stdout")" ] ||
            t_fail "$model: the reasons differ"
        [ $status -eq 0 ] || [ ! -s eyes ] || t_fail "$model: refused after words"
    done
fi
t_end
