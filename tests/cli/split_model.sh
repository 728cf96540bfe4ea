# A split model is the model: the same root, the same pages and tokens as the whole file; a missing part is named.
. "$(dirname "$0")/../lib.sh"

t_needs tiny "$AKV_BUILD/tests/splitmodel" jq
"$AKV_BUILD/tests/splitmodel" "$TINY" part 3 || exit 1
first=part-00001-of-00003.gguf
echo '{"messages":[{"role":"user","content":"What is the weather in the town where I was born?"}],"max_tokens":12}' >chat.json

t_begin "its root is that of the whole file"
akv-inspect --json --root "$TINY" | jq -c .root >root.whole
t_sh 0 "akv-inspect --json --root $first | jq -c .root"
t_out '"[0-9a-f]{64}"'
t_out_is root.whole

t_begin "pages and greedy tokens are those of the whole file, byte for byte"
akv-tokenize -m "$TINY" chat.json >tok.whole
t_run 0 akv-tokenize -m "$first" chat.json
t_out_is tok.whole
akv-prefill -q -m "$TINY" tok.whole >akv.whole
t_run 0 akv-prefill -q -m "$first" tok.whole
t_out_is akv.whole
akv-gen -q -m "$TINY" tok.whole >text.whole
t_run 0 akv-gen -q -m "$first" tok.whole
t_out_is text.whole
t_is "$([ -s text.whole ] && echo some)" some "text of the reply"

t_begin "pages that the whole file made are restored for it"
t_sh 0 "akv-gen -q -m $first <akv.whole"
t_out_is text.whole

t_begin "its size is that of all parts"
t_is "$(akv-inspect --json "$first" | jq .file_bytes)" "$(cat part-*.gguf | wc -c)" file_bytes

t_begin "a later part is no model: the first is asked for"
t_run 3 akv-gen -m part-00002-of-00003.gguf tok.whole
t_err_line 'part 2 of 3 of a split model: give the first'

t_begin "a missing part is named; the vocabulary alone does not need it"
mv part-00003-of-00003.gguf away
t_run 5 akv-gen -m "$first" tok.whole
t_err_line 'part-00003-of-00003\.gguf: cannot open'
t_run 0 akv-tokenize -m "$first" chat.json
t_out_is tok.whole
mv away part-00003-of-00003.gguf

t_end
