# akv-tokenize -f: foreign requests through a jq program, without loss.
. "$(dirname "$0")/../lib.sh"
export AKV_MODEL=$TINY

t_begin "a program turns one value into several requests, numbered on" tiny || { t_end; exit; }
echo '.turns[] | {messages: [{role: "user", content: .}]}' >turns.jq
echo '{"turns": ["one", "two"]} {"turns": []} {"turns": ["three"]}' >foreign.json
t_run 0 akv-tokenize -f turns.jq foreign.json
cp "$t_stdout" filtered
t_is "$(jq -r .id filtered | tr '\n' ' ')" "r1 r2 r4 " "ids"
printf '%s\n' '{"id":"r1","messages":[{"role":"user","content":"one"}]}' '{"id":"r2","messages":[{"role":"user","content":"two"}]}' \
    '{"id":"r4","messages":[{"role":"user","content":"three"}]}' | akv-tokenize >direct
t_same direct filtered

t_begin "numbers pass as they were written: 1.0, integers beyond 2^53, small fractions" tiny
cat >numbers.jinja <<'J'
{{ messages[0].arguments | tojson }}
J
echo '{messages: [{role: "tool", arguments: .args}]}' >args.jq
echo '{"args": {"z": 1.0, "big": 9007199254740993, "min": -9223372036854775808, "a": 0.1, "e": 1e-07, "neg": -0.0, "n": 3, "list": [2.0, true, null, "é"]}}' >args.json
t_run 0 akv-tokenize -f args.jq --render --template numbers.jinja args.json
t_out_is <(printf '%s' '{"z": 1.0, "big": 9007199254740993, "min": -9223372036854775808, "a": 0.1, "e": 1e-07, "neg": -0.0, "n": 3, "list": [2.0, true, null, "é"]}')

t_begin "a program that does not compile, and one that fails" tiny
echo '.turns[' >broken.jq
t_run 3 akv-tokenize -f broken.jq foreign.json
t_err_line '^akv-tokenize: broken.jq: jq program: '
echo '{messages: [{role: "user", content: .turns[0]}]}' >first.jq
echo '{"turns": ["one"]} {"turns": 7} {"turns": ["two"]}' >mixed.json
t_run 3 akv-tokenize -f first.jq mixed.json
t_err '^akv-tokenize: mixed.json: request 2: jq program: '
t_is "$(wc -l <"$t_stdout")" 2 "records"
t_end
