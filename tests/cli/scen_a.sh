# Identity of answers: whatever was stored, restored or run before, an answer is that of a cold run.
# A7 (restored at every cut) is exact.sh's.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
prompt='Please write a short note to the others and tell them where to find us. When the user asks for the time of a meeting, look into
the calendar first, then answer with the time and the name of the room. It is warm and there is no chance of rain this morning.'
printf '%s' "$prompt" | akv-tokenize --raw >raw.tok || exit 1

# Tools first, then the messages: the template of the requests here.
cat >tools.jinja <<'JINJA'
{%- if tools -%}<|im_start|>tools
{% for t in tools %}{{ t | tojson }}
{% endfor %}<|im_end|>
{% endif -%}
{%- for m in messages -%}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
JINJA
tools='[{"name":"weather","description":"The weather tool takes the name of a city and returns the temperature in degrees."},
 {"name":"calendar","description":"The calendar tool takes a date and returns the list of appointments of that day."},
 {"name":"search","description":"The search tool takes a question and returns the three best answers."}]'

# chat OUT TOOLS SYSTEM USER [ASSISTANT USER...]: the token record of a conversation.
chat() {
    local out=$1 tools=$2
    shift 2
    jq -nc --argjson tools "$tools" '{tools: $tools, messages: [$ARGS.positional | to_entries[] |
        {role: (if .key == 0 then "system" elif .key % 2 == 1 then "user" else "assistant" end), content: .value}]}' --args "$@" >chat.json
    t_run 0 akv-tokenize --template tools.jinja -o "$out" chat.json
}

# first N RECORD: the record of its first N tokens, asking for nothing; first N RECORD IDS: with other ids after them, a request.
first() {
    jq -c --argjson n "$1" --argjson more "${3:-null}" '.tokens[:$n] + ($more // []) |
        {akv: "tokens/1", id: "first-\($n)", n: length, tokens: .} + if $more then {} else {gen: {max_tokens: 0}} end' "$2"
}

# What an answer is: its text and ids.
answer='jq -c "[.text, .tokens, .finish_reason]"'

# as_cold STORE RECORD [OPTION...]: from the store, by each road, what a cold run gives; the last road has the options (--save).
# Leaves the statistics of that one.
as_cold() {
    local store=$1 record=$2
    shift 2
    t_sh 0 "akv-gen -n 12 --json $record | $answer >cold.json"
    t_run 0 akv-prefill -o cold.akv "$record"
    t_run 0 akv-prefill -s "$store" -o warm.akv "$record"
    t_same cold.akv warm.akv
    t_sh 0 "akv-restore -s $store $record | akv-gen -n 12 --json | $answer >warm.json"
    t_same cold.json warm.json
    rm -f stats
    t_sh 0 "akv-gen -s $store $* -n 12 --json --stats=stats $record | $answer >warm.json"
    t_same cold.json warm.json
    t_is "$(jq '.cached_tokens + .prefilled_tokens + .missing_tokens == .prompt_tokens' stats)" true "the sum of cached, prefilled, missing"
    [ "$(jq -r '.[1] | length' cold.json)" -gt 0 ] || t_fail "the reply is empty"
}
stat() {
    tail -n 1 stats | jq -r ".$1"
}

# pin STORE NAME RECORD: its pages under a name.
pin() {
    t_sh 0 "akv-prefill $3 | akv-pin -q -s $1 $2"
}

# common A B: in how many tokens two records begin alike.
common() {
    jq -s '.[0].tokens as $a | .[1].tokens as $b | [$a, $b | length] | min as $n |
        [range($n) | select($a[.] != $b[.])] | first // $n' "$1" "$2"
}

t_begin "A1 the same tools, systems of equal and of unequal length, one after the other on one store"
chat a.tok "$tools" "You answer in verse." "What is the weather?"
chat b.tok "$tools" "You answer in prose." "What is the weather?"
chat c.tok "$tools" "You answer in short sentences and never in verse." "What is the weather?"
at=$(jq '.anchors[] | select(.name == "tools").at' a.tok)
[ "$at" -gt 64 ] || t_fail "the tools take $at tokens"
t_is "$(jq .n a.tok)" "$(jq .n b.tok)" "the length of b"
for record in a.tok b.tok c.tok a.tok c.tok b.tok; do
    as_cold store1 $record --save
    case $record$(stat hit) in *none) [ ! -e seen ] || t_fail "$record did not hit" ;; esac
    [ ! -e seen ] || [ "$(stat cached_tokens)" -ge $((at / 64 * 64)) ] || t_fail "$record: less than the tools was cached"
    touch seen
done
t_begin "A2 one character of a tool's description changes after the anchor was pinned"
chat changed.tok "${tools/three best/three last}" "You answer in verse." "What is the weather?"
akv-split --prefix=system a.tok >anchor.tok
pin store2 agent anchor.tok
at=$(common a.tok changed.tok)
[ "$at" -gt 64 ] || t_fail "they part at $at already"
as_cold store2 changed.tok
t_is "$(stat cached_tokens)" $((at / 64 * 64)) "cached_tokens"
t_is "$(stat hit)" partial "hit"
as_cold store2 a.tok
t_is "$(stat cached_tokens)" "$(jq .n anchor.tok)" "cached_tokens of the unchanged one"

t_begin "A3 two pins on one system prompt, then two questions"
chat q1.tok "$tools" "You answer in verse." "What is the weather?"
chat q2.tok "$tools" "You answer in verse." "Which meetings are there today?"
pin store3 agent anchor.tok
pin store3 agent-q1 q1.tok
as_cold store3 q1.tok
t_is "$(stat hit)" full "hit of the first"
t_is "$(stat prefilled_tokens)" 1 "prefilled_tokens of the first"
as_cold store3 q2.tok
t_is "$(stat prefilled_tokens)" $(($(stat prompt_tokens) - $(stat cached_tokens))) "prefilled_tokens of the second"
[ "$(stat cached_tokens)" -ge "$(jq .n anchor.tok)" ] || t_fail "less than the anchor was cached"

t_begin "A4 the history was edited or summarised: the new prompt is shorter than the stored chain"
chat long.tok "$tools" "You answer in verse." "What is the weather?" "It is warm, and no rain falls." "And tomorrow?" \
    "Tomorrow the rain returns." "Then we should meet inside. Which room is free after lunch?"
as_cold store4 long.tok --save
chat short.tok "$tools" "You answer in verse." "Summary: it is warm today and rains tomorrow. Which room is free?"
at=$(common long.tok short.tok)
[ "$(jq .n short.tok)" -lt "$(jq .n long.tok)" ] || t_fail "it is not shorter"
as_cold store4 short.tok
tools_end=$(jq '.anchors[] | select(.name == "tools").at' long.tok)
system=$(jq '.anchors[] | select(.name == "system").at' long.tok)
whole=$((at / 64 * 64))
t_is "$(stat cached_tokens)" $((system > whole ? system : whole)) "cached_tokens"
for n in 65 100 127 128 129 $((system - 1)) "$system"; do # cut anywhere, as by an editor
    first "$n" long.tok '[]' >cut.tok
    as_cold store4 cut.tok
    want=$((n / 64 * 64))
    for at in "$tools_end" "$system"; do # the tails that are kept
        [ "$n" -lt "$at" ] || [ "$at" -le "$want" ] || want=$at
    done
    [ "$want" -ne "$n" ] || want=$((n - 1))
    t_is "$(stat cached_tokens)" "$want" "cached_tokens at $n"
done

t_begin "A5 the stored chain covers the whole prompt: the last token is computed again, and sampled as cold"
for n in 1 2 63 64 65 128; do
    first $n long.tok '[]' >whole.tok
    pin store5 whole-$n whole.tok
    for how in "--temp 0" "--temp 0.8 --seed 1" "--temp 0.8 --seed 1 --top-k 40 --top-p 0.9 --repeat-penalty 1.1"; do
        t_sh 0 "akv-gen $how -n 12 --json whole.tok | $answer >cold.json"
        rm -f stats
        t_sh 0 "akv-gen $how -n 12 --json -s store5 --stats=stats whole.tok | $answer >warm.json"
        t_same cold.json warm.json
        t_is "$(stat cached_tokens) $(stat prefilled_tokens) $(stat hit)" "$((n - 1)) 1 full" \
            "the statistics of $n tokens"
    done
done

t_begin "A6 the very same command twice"
for json in '' --json; do
    for run in 1 2; do
        rm -f stats
        t_run 0 akv-gen -s store6 --save -n 20 $json --stats=stats long.tok
        jq -c 'del(.timings, .usage.prompt_tokens_details)' "$t_stdout" >$run.out 2>/dev/null || cp "$t_stdout" $run.out
    done
    t_same 1.out 2.out
    t_is "$(stat hit)" partial "hit of the second"
    [ "$(stat cached_tokens)" -ge 64 ] || t_fail "$(stat cached_tokens) tokens cached"
done

t_begin "A8 a shared prefix of 3 tokens, and of a page and two pages, minus one, exactly, and plus one"
for n in 3 63 64 65 127 128 129; do
    first $n long.tok >shared.tok
    rm -rf store8
    pin store8 shared shared.tok
    for more in '[260, 78, 82]' '[17, 18]'; do
        first $n long.tok "$more" >request.tok
        as_cold store8 request.tok
        t_is "$(stat cached_tokens)" $n "cached_tokens"
    done
done

# turn STORE RECORD: one turn of a conversation, saved, and cold. Leaves its answer in reply.json.
turn() {
    rm -f stats
    t_sh 0 "akv-gen -n $3 --json $2 | $answer >cold.json"
    t_run 0 akv-gen -n "$3" -s "$1" --save --json --stats=stats "$2"
    cp "$t_stdout" reply.json
    t_sh 0 "$answer reply.json >warm.json"
    t_same cold.json warm.json
}

# grew TURN: the hit has grown, and holds the reply before.
cached=0 known=0
grew() {
    [ "$(stat cached_tokens)" -gt "$cached" ] || [ "$1" -eq 1 ] || t_fail "turn $1: cached_tokens went from $cached to $(stat cached_tokens)"
    [ "$(stat cached_tokens)" -ge "$known" ] || t_fail "turn $1: $(stat cached_tokens) cached, $known were evaluated before"
    cached=$(stat cached_tokens)
    known=$(($(stat prompt_tokens) + $(stat completion_tokens) - 1)) # the last token was not evaluated
}
t_begin "A9 sixteen turns, each saved: every turn is that of a cold run, and pays only for its delta"
first 40 raw.tok '[]' >turn.tok
for i in {1..16}; do
    turn store9 turn.tok 9
    grew "$i"
    jq -c --slurpfile r reply.json --argjson i "$i" '.tokens += $r[0].tokens + [2, 201, 1, 260 + $i, 78, 82, 2, 201, 1] |
        .n = (.tokens | length) | .id = "turn-\($i)"' turn.tok >next.tok && mv next.tok turn.tok
done
t_begin "A9 the same through the store's stream: akv-restore | akv-gen"
t_sh 0 "akv-gen -n 9 --json turn.tok | $answer >cold.json"
t_sh 0 "akv-restore -s store9 turn.tok | akv-gen -n 9 --json --stats=stats | $answer >warm.json"
t_same cold.json warm.json
t_is "$(stat cached_tokens)" "$known" "cached_tokens"
if t_begin "A9 sixteen turns of a chat, replies given back with their ids" smol; then
    export AKV_MODEL=$SMOL
    cached=0 known=0
    jq -nc '{messages: [{role: "system", content: "Answer in one word."}]}' >chat.json
    for i in {1..16}; do
        jq -c --argjson i "$i" '.messages += [{role: "user", content: "And \($i)?"}]' chat.json >next.json
        mv next.json chat.json
        t_run 0 akv-tokenize -o turn.tok chat.json
        [ "$i" -eq 1 ] || t_is "$(jq -c --argjson at "$at" --slurpfile r reply.json '.tokens[$at:$at + ($r[0].tokens | length)]' turn.tok)" \
            "$(jq -c .tokens reply.json)" "the ids of reply $((i - 1)) in the next turn"
        at=$(jq .n turn.tok)
        turn storechat turn.tok 4
        grew "$i"
        jq -c --slurpfile r reply.json '.messages += [{role: "assistant", content: $r[0].text, akv_ids: $r[0].tokens}]' chat.json >next.json
        mv next.json chat.json
    done
    export AKV_MODEL=$TINY
fi

t_begin "A12 a request, then an unrelated one in the same process"
chat x.tok "$tools" "You answer in verse." "What is the weather?" "It is warm." "And tomorrow?"
for y in raw.tok c.tok a.tok; do
    t_sh 0 "akv-gen -n 12 --json $y | $answer >cold.json"
    t_sh 0 "cat x.tok $y | akv-gen -n 12 --json | tail -n 1 | $answer >warm.json"
    t_same cold.json warm.json
    t_sh 0 "akv-gen -n 12 --json x.tok $y x.tok $y -s store12 --save | tail -n 1 | $answer >warm.json"
    t_same cold.json warm.json
    t_sh 0 "akv-prefill $y | akv-inspect --json | jq -r 'select(.type == \"P\").sha256' >cold.sha"
    t_sh 0 "cat x.tok $y | akv-prefill | akv-inspect --json | jq -r 'select(.type == \"P\").sha256' >warm.sha"
    t_is "$(sort -u cold.sha warm.sha | wc -l)" "$(sort -u warm.sha | wc -l)" "pages"
done

t_begin "A13 restored at n_ctx - 1; prompts of n_ctx and of n_ctx + 1 tokens"
"$AKV_BUILD/tests/mkmodel" --ctx 128 -o small.gguf
for how in "-m small.gguf" "-c 128"; do
    rm -rf store13
    first 127 long.tok '[]' >full.tok
    t_sh 0 "akv-prefill $how full.tok | akv-pin -q -s store13 full"
    t_sh 0 "akv-gen $how --json full.tok | $answer >cold.json"
    t_sh 0 "akv-gen $how --json -s store13 --stats=stats full.tok | $answer >warm.json"
    t_same cold.json warm.json
    t_is "$(stat cached_tokens)" 126 "cached_tokens"
    t_is "$(jq -c '[(.[1] | length), .[2]]' warm.json)" '[1,"context"]' "the number of tokens and the reason"
    first 128 long.tok '[]' >full.tok
    t_sh 0 "akv-restore $how -s store13 full.tok | akv-gen $how --json --stats=stats | $answer >warm.json"
    t_is "$(stat cached_tokens)" 127 "cached_tokens"
    t_is "$(jq -c '[(.[1] | length), .[2]]' warm.json)" '[0,"context"]' "the number of tokens and the reason"
    t_sh 0 "akv-prefill $how -o full.akv full.tok"
    t_sh 0 "akv-prefill $how -s store13 full.tok >warm.akv"
    t_same full.akv warm.akv
    first 129 long.tok '[]' >over.tok
    for tool in akv-gen akv-prefill "akv-gen -s store13"; do
        t_sh 3 "$tool $how over.tok"
        t_err_line 'request first-129: 129 tokens: the context holds 128$'
    done
done

# ascii_pieces RECORD: the reply's tokens, each as text, one a line ("?" what is not plain text), into pieces.
ascii_pieces() {
    local id
    t_run 0 akv-gen -n 40 --json "$1"
    cp "$t_stdout" reply.json
    jq -r '.tokens[]' reply.json | while read -r id; do
        echo "{\"akv\":\"tokens/1\",\"id\":\"x\",\"n\":1,\"tokens\":[$id]}" | akv-tokenize --decode | LC_ALL=C grep -axE '[ -~]+' || echo '?'
    done >pieces
}

# stops_at RECORD STOP TOKENS: generation ends with the token that completes STOP, the text right before it.
stops_at() {
    t_run 0 akv-gen -n 40 --json --stop "$2" -s store16 --save --stats=stats "$1"
    cp "$t_stdout" stopped.json
    t_is "$(jq -c '[(.tokens | length), .finish_reason]' stopped.json)" "[$3,\"stop\"]" "the number of tokens and the reason, stopping at '$2'"
    t_is "$(jq -r .text stopped.json)" "$(jq -r --arg stop "$2" '.text | split($stop)[0]' reply.json)" "the text before '$2'"
    t_sh 0 "akv-gen -n 40 --stop '$2' $1"
    t_is "$(cat "$t_stdout"; echo .)" "$(jq -r .text stopped.json; echo .)" "the text without --json"
    # the store holds what was evaluated, which the last token was not
    jq -c --slurpfile r stopped.json '.tokens += $r[0].tokens | .n = (.tokens | length) | del(.spans, .anchors)' "$1" >next.tok
    rm -f stats
    t_sh 0 "akv-prefill -s store16 --stats=stats -o warm.akv next.tok"
    t_is "$(stat cached_tokens)" $(($(jq .n "$1") + $3 - 1)) "cached_tokens after stopping at '$2'"
    t_run 0 akv-prefill -o cold.akv next.tok
    t_same cold.akv warm.akv
}

# stop_strings RECORD PAIRS: at so many pairs of tokens: a stop string of one token, across both, and ending inside the second.
stop_strings() {
    ascii_pieces "$1"
    jq -r .text reply.json >text
    local k a b n=0
    for k in {1..38}; do
        a=$(sed -n "${k}p" pieces) b=$(sed -n "$((k + 1))p" pieces)
        if [ ${#a} -lt 2 ] || [ ${#b} -lt 2 ]; then continue; fi
        # each must not come earlier in the text
        head -n "$k" pieces | tr -d '\n' >before
        if grep -qF -e "${a: -1}${b:0:1}" -e "$b" before; then continue; fi
        rm -rf store16
        stops_at "$1" "${a: -1}$b" $((k + 1))
        stops_at "$1" "${a: -1}${b:0:1}" $((k + 1))
        stops_at "$1" "$b" $((k + 1))
        n=$((n + 1))
        [ $n -lt "$2" ] || break
    done
    [ $n -gt 0 ] || t_fail "no two tokens of plain text in the reply"
}
t_begin "A15 A16 stop strings of one token, across two, and ending inside one"
stop_strings a.tok 2
if t_begin "A15 A16 the same with a real vocabulary" smol; then
    export AKV_MODEL=$SMOL
    jq -nc '{messages: [{role: "user", content: "What is the weather in the city today?"}]}' | akv-tokenize >smol.tok
    stop_strings smol.tok 1
    export AKV_MODEL=$TINY
fi

t_begin "A15 the reader has gone: generation ends at once, only what was computed is visible, the next run is right"
t_sh 0 "(sleep 0.3; akv-gen -s store15 --save -n 4000 a.tok; echo \$? >status) | :"
t_is "$(cat status)" 141 "the exit status (SIGPIPE)"
t_is "$(find store15/tmp -type f)" "" "temporaries in the store"
find store15/objects -type f >objects
xargs cat <objects | akv-inspect --json | jq -s 'map(select(.type == "P")) | map(.index * 64 + .n) | max' >tip
[ "$(cat tip)" -le "$(jq .n a.tok)" ] || t_fail "$(cat tip) tokens are stored of a prompt of $(jq .n a.tok)"
while read -r object; do t_run 0 akv-inspect --verify "$object"; done <objects
as_cold store15 a.tok
t_begin "A15 the reader takes ten bytes"
t_sh 0 "(akv-gen -s store15b --save -n 4000 a.tok; echo \$? >status) | head -c 10 >ten"
t_is "$(cat status)" 141 "the exit status (SIGPIPE)"
t_sh 0 "akv-gen -n 20 a.tok >twenty; head -c 10 twenty | cmp - ten"
find store15b/objects -type f >objects
[ -s objects ] || t_fail "nothing is stored"
while read -r object; do t_run 0 akv-inspect --verify "$object"; done <objects
t_is "$(find store15b/tmp -type f)" "" "temporaries in the store"
as_cold store15b a.tok

# exact_bytes RECORD N: the text is the decoded ids to the byte, JSON holds whole characters.
exact_bytes() {
    t_run 0 akv-gen -n "$2" --json "$1"
    cp "$t_stdout" reply.json
    t_sh 0 "jq -c '{akv: \"tokens/1\", id: \"x\", n: (.tokens | length), tokens}' reply.json | akv-tokenize --decode >decoded"
    echo >>decoded
    t_sh 0 "akv-gen -n $2 $1 >streamed"
    t_same decoded streamed
    t_sh 0 "iconv -f UTF-8 -t UTF-8 reply.json >/dev/null"
}
t_begin "A17 bytes that are no characters stream out as they are, JSON stays UTF-8"
exact_bytes a.tok 200
LC_ALL=C grep -aq $'\xef\xbf\xbd' streamed && t_fail "U+FFFD in the text"
LC_ALL=C grep -aqP '[\x80-\xff]' streamed || t_fail "no byte outside ASCII in the reply"
if t_begin "A17 characters split over tokens: exact bytes at every cut, whole characters in JSON" smol; then
    export AKV_MODEL=$SMOL
    printf '🎉🚀🎉🚀🎉🚀🎉🚀 語日語日語日語日 🎉🚀🎉🚀' | akv-tokenize --raw >emoji.tok
    t_run 0 akv-gen -n 12 --json emoji.tok
    jq -r .text "$t_stdout" >whole
    [ "$(jq '.text | length' "$t_stdout")" -lt "$(jq '.tokens | length' "$t_stdout")" ] || t_fail "no character takes two tokens"
    for n in 1 2 3 5; do
        exact_bytes emoji.tok $n
        t_is "$(jq -r --rawfile w whole '. as $r | $w | startswith($r.text)' reply.json)" true "that the text of $n tokens is a beginning"
        jq -j .text reply.json | cmp -s -n "$(jq -j .text reply.json | wc -c)" - decoded || t_fail "the text of $n tokens is not the decoded one"
        LC_ALL=C grep -aq $'\xef\xbf\xbd' streamed reply.json && t_fail "U+FFFD in the text of $n tokens"
    done
    t_sh 0 "akv-gen -n 0 --echo emoji.tok"
    t_out_is <(printf '🎉🚀🎉🚀🎉🚀🎉🚀 語日語日語日語日 🎉🚀🎉🚀\n')
    export AKV_MODEL=$TINY
fi
t_end
