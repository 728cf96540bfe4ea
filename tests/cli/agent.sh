# examples/agent: a conversation with calls of a tool, in which every prompt begins with the tokens of the one before and its reply.
. "$(dirname "$0")/../lib.sh"
agent=$TOP/examples/agent

t_begin "each step reuses all of the step before, its reply with the call included; a reply is that of a cold run" smol jq || { t_end; exit; }
export AKV_MODEL=$SMOL AKV_STORE=$T/store AGENT_CHAT=$T/chat.json
t_run 0 "$agent/agent" "What is in the file notes.txt?" "What is in the file c.txt?"
t_is "$(wc -l <"$t_stdout")" 2 "answers"
cp "$t_stderr" steps
t_is "$(wc -l <steps)" 4 "steps"
t_is "$(grep -c akv- steps)" 0 "warnings"
before=0
while read -r _ prompt _ cached _ reply; do
    [ "${cached%,}" -ge "$before" ] || t_fail "of $before tokens ${cached%,} were reused"
    [ "$before" -eq 0 ] || [ "${cached%,}" -lt "${prompt%,}" ] || t_fail "nothing new in a step"
    before=$((${prompt%,} + reply))
done <steps
[ "$before" -gt 300 ] || t_fail "the conversation did not grow"

# replies of the conversation, each answered again without a store
t_is "$(jq '[.messages[] | select(.akv_ids and .tool_calls)] | length' chat.json)" 2 "calls"
for at in $(jq -r '.messages | to_entries[] | select(.value.akv_ids) | .key' chat.json); do
    jq --argjson at "$at" '.messages |= .[:$at]' chat.json >cold.json
    t_sh 0 "akv-tokenize --template '$agent/tools.jinja' cold.json | akv-gen --no-store --json | jq -c .tokens"
    t_out_is <(jq -c --argjson at "$at" '.messages[$at].akv_ids' chat.json)
done

t_begin "the ids stand whatever JSON the client makes of a call, and not when it says something else" smol jq
t_run 0 akv-tokenize --template "$agent/tools.jinja" chat.json
jq -c .tokens "$t_stdout" >exact
jq '.messages |= map(if .akv_ids and .tool_calls then (.tool_calls[].function.arguments |= tojson) | del(.content) else . end)' chat.json >string.json
t_run 0 akv-tokenize --template "$agent/tools.jinja" string.json
t_out_is <(jq -c --slurpfile t exact '.tokens = $t[0]' "$t_stdout")
[ ! -s "$t_stderr" ] || t_fail "a warning"
jq '.messages |= map(if .akv_ids and .tool_calls then .tool_calls[].function.arguments.file = "x.txt" else . end)' chat.json >edited.json
t_run 0 akv-tokenize --template "$agent/tools.jinja" edited.json
t_err '^akv-tokenize: messages\[[0-9]+\].akv_ids: not used, the text is tokenised: the arguments of a call'
t_is "$(akv-tokenize --decode "$t_stdout" 2>/dev/null | grep -c x.txt)" 2 "calls as edited"
t_end
