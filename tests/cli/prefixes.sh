# akv-split over many records: prefixes once, who shares them, places to cut.
. "$(dirname "$0")/../lib.sh"

t_needs tiny jq

# records: 60 requests of three families; a family shares 100 tokens, half of it 40 more; the rest is each one's own.
jq -nc '[range(60)] | map({f: (. % 3), h: ((. / 3 | floor) % 2), i: .})[] |
    ([range(100)] | map(7)) as $head | ([range(40)] | map(11)) as $more |
    {akv: "tokens/1", id: "r\(.i)", tokens: ([.f + 20] + $head[1:] + (if .h == 1 then $more else ($more | map(12)) end) + [30 + .i, 30 + .i]),
     anchors: ([{name: "system", at: 100}, {name: "turn-1", at: 140}, {name: "prompt", at: 142}])} | .n = (.tokens | length)' >fleet

t_begin "distinct prefixes once a stream, whoever names them first"
t_run 0 akv-split --prefix=system fleet
t_is "$(grep -c '' "$t_stdout")" 3 "prefixes of 100 tokens"
t_is "$(jq -r '[.n, .gen.max_tokens, (.id | split(":")[0])] | join(" ")' "$t_stdout" | sort -u)" "100 0 system" "what they are"
t_run 0 akv-split --prefix fleet
t_is "$(grep -c '' "$t_stdout")" $((3 + 6 + 60)) "prefixes"
t_sh 0 'cat fleet fleet | akv-split --prefix | cmp - <(akv-split --prefix fleet)'
t_sh 0 'akv-split --keys fleet | jq -r ".keys[1]" | sort -u | wc -l | grep -x 6'
# another name for the same tokens is not another prefix
t_run 0 akv-split --prefix=at-100 --at 100 --at 90 <(head -n 1 fleet)
t_sh 0 "akv-split --at 100 --prefix=at-100 fleet | cat - <(akv-split --prefix=system fleet) | akv-split --prefix | grep -c '' | grep -x 3"
t_run 0 akv-split -v --prefix=system fleet
t_err '^akv-split: system:[0-9a-f]{16}: 100 tokens, in 20 requests$'

t_begin "prefixes leave at once: the first is out before the input ends"
mkfifo in out
akv-split --prefix=system <in >out &
exec 3>in 4<out
head -n 1 fleet >&3
read -r -t 20 line <&4 || t_fail "nothing came"
exec 3>&-
wait $! || t_fail "akv-split failed"
exec 4<&-
t_is "$(jq -r .n <<<"$line")" 100 "the first prefix"

t_begin "the tree: who shares what, and what keeping it saves"
t_run 0 akv-split --tree --json fleet
t_is "$(jq -c 'select(.anchor) | [.anchor, .tokens, .requests, .saves]' "$t_stdout" | sort | uniq -c | tr -s ' ' | paste -sd';')" \
    ' 3 ["system",100,20,1900]; 6 ["turn-1",140,10,360]' "the shared prefixes"
t_is "$(tail -n 1 "$t_stdout")" '{"requests":60,"tokens":8520,"saves":7860}' "the sum"
t_is "$(jq -r 'select(.parent) | .parent' "$t_stdout" | sort -u)" "$(jq -r 'select(.anchor == "system") | .key' "$t_stdout" | sort)" "parents"
t_is "$(jq -r 'select(.anchor) | .anchor + ":" + .key' "$t_stdout" | sort)" \
    "$(akv-split --prefix fleet | jq -r 'select(.id | startswith("prompt") | not) | .id' | sort)" "keys are the ids of the prefixes"
t_run 0 akv-split --tree fleet
t_is "$(grep -c '' "$t_stdout")" $((1 + 9 + 1)) "lines"
t_out '^ +20 +100 +1900  [0-9a-f]{16}  system$'
t_out '^ +10 +140 +360  [0-9a-f]{16}    turn-1$'
t_out '^60 requests of 8520 tokens: a store that keeps these prefixes saves 7860 \(92\.3 %\)$'
# the order of the records does not matter; a prefix counts for all that share a longer one with a request that names both
t_sh 0 'shuf --random-source=<(yes) fleet | akv-split --tree | cmp - <(akv-split --tree fleet)'
t_sh 0 "jq -c 'if .id == \"r0\" then . else del(.anchors[0]) end' fleet | akv-split --tree --json | jq -es 'map(select(.anchor == \"system\") | .requests) == [10]'"
t_run 0 akv-split --tree --at system fleet
t_out '^60 requests of 8520 tokens: .* saves 5700 '
t_run 0 akv-split --tree <(head -n 1 fleet)
t_out '^1 requests of 142 tokens: .* saves 0 \(0\.0 %\)$'

t_begin "a place is a position or the name of an anchor"
t_run 0 akv-split --at 64 --at system <(head -n 1 fleet)
t_is "$(jq -c '[.anchors[] | [.name, .at]]' "$t_stdout")" '[["at-64",64],["system",100],["turn-1",140],["prompt",142]]' "anchors"
t_run 0 akv-split --prefix --at 64 --at system fleet
t_is "$(jq -r .n "$t_stdout" | sort -n | paste -sd' ')" "64 64 64 100 100 100" "prefixes at two places"
t_run 0 akv-split --prefix --at last <(head -n 1 fleet)
t_is "$(jq -r .n "$t_stdout")" 142 "the last anchor"
for option in --prefix=tools "--prefix --at tools" "--at tools" "--tree --at tools"; do
    # shellcheck disable=SC2086 # words
    t_run 1 akv-split $option <(head -n 1 fleet)
    t_err_line 'record r0: no anchor "tools": it has system, turn-1, prompt'
done
t_run 1 akv-split --at tools <(head -n 1 fleet) <(jq -c '.anchors[0].name = "tools"' <(sed -n 2p fleet))
t_is "$(jq -r .id "$t_stdout")" r1 "the others go on"
for at in 0 143; do
    t_run 2 akv-split --at $at <(head -n 1 fleet)
    t_err_line "^akv-split: request [^ ]+: position $at: must be 1 to 142, its tokens\$"
done
t_run 2 akv-split --tree --prefix fleet
t_run 2 akv-split --tree --keys fleet
t_run 2 akv-split --tree --against fleet fleet

if t_begin "with a model, a position is moved to where the tokens of both parts stay, and the record says so" smol; then
    # nine spaces are one token with the word's own after them: cut inside, they part otherwise
    printf 'a\n\n\n\n\n\nb         c' | akv-tokenize -m "$SMOL" --raw >text
    n=$(jq .n text)
    # shellcheck disable=SC2046 # words
    t_run 0 akv-split -m "$SMOL" $(seq -f '--at %g' 1 $((n - 1))) text
    cp "$t_stdout" cuts
    for at in $(jq -r '.anchors[].at' cuts | sort -un); do
        for half in ":$at" "$at:"; do jq -c ".tokens |= .[$half] | .n = (.tokens | length) | del(.spans, .anchors)" text; done |
            akv-tokenize -m "$SMOL" --decode --json | jq -c '{prompt: .text, add_special: false}' | akv-tokenize -m "$SMOL" |
            jq -sc 'map(.tokens) | add' >parts
        t_same parts <(jq -c .tokens text)
    done
    t_run 0 akv-split $(seq -f '--at %g' 1 $((n - 1))) text
    t_is "$(jq -c '[.anchors[] | select(.moved_from)]' "$t_stdout")" "[]" "without a model nothing moves"
fi

t_end
