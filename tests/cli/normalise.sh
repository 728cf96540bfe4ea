# akv-tokenize --from: requests of other kinds, as their programs send them, become the chat requests that they mean.
. "$(dirname "$0")/../lib.sh"
export AKV_MODEL=$TINY

# A template that prints all that it is given.
cat >shape.jinja <<'J'
{{ messages | tojson }}
{{ tools | tojson }}
{{ enable_thinking | default("-") }} {{ reasoning_effort | default("-") }}

J

# shape FORMAT FILE: what the template sees. gen FORMAT FILE: the sampling settings of the record.
shape() { t_run 0 akv-tokenize --from "$1" --render --template shape.jinja "$2"; }
gen() { t_run 0 akv-tokenize --from "$1" "$2"; }

# refused FORMAT PATTERN JSON
refused() {
    printf '%s' "$3" >bad.json
    t_run 3 akv-tokenize --from "$1" bad.json
    t_err_line "^akv-tokenize: bad.json: request 1: $2"
}

t_begin "anthropic: an agent's turn with thinking, parallel calls, results in parts, an error, and text after them" tiny jq || { t_end; exit; }
cat >claude.json <<'J'
{"model":"claude-sonnet","max_tokens":1024,"temperature":0.5,"top_k":5,"stream":true,"metadata":{"user_id":"u1"},
 "system":[{"type":"text","text":"You are terse.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Use the tools."}],
 "tools":[{"name":"get_weather","description":"Current weather","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z"]},
   "cache_control":{"type":"ephemeral"}},{"name":"now","input_schema":{"type":"object","properties":{}}}],
 "tool_choice":{"type":"auto"},"stop_sequences":["END"],"thinking":{"type":"enabled","budget_tokens":2000},
 "messages":[
  {"role":"user","content":"Weather in Zürich and the time?"},
  {"role":"assistant","content":[
   {"type":"thinking","thinking":"Two calls.","signature":"EqQB"},{"type":"redacted_thinking","data":"x"},
   {"type":"text","text":"Let me see."},
   {"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"z":"Zürich","a":9007199254740993,"f":1.0}},
   {"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},
  {"role":"user","content":[
   {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"15 C"},{"type":"text","text":"cloudy"}]},
   {"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"no clock"},
   {"type":"text","text":"And tomorrow?","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be quick."}]}]}
J
shape anthropic claude.json
t_out_is <(printf '%s\n' '[{"role": "system", "content": "You are terse.\nUse the tools."}, {"role": "user", "content": "Weather in Zürich and the time?"}, {"thinking": "Two calls.", "role": "assistant", "content": "Let me see.", "reasoning_content": "Two calls.", "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "get_weather", "arguments": {"z": "Zürich", "a": 9007199254740993, "f": 1.0}}}, {"id": "toolu_2", "type": "function", "function": {"name": "now", "arguments": {}}}]}, {"role": "tool", "tool_call_id": "toolu_1", "name": "get_weather", "content": "15 C\ncloudy"}, {"role": "tool", "tool_call_id": "toolu_2", "name": "now", "content": "no clock", "is_error": true}, {"role": "user", "content": "And tomorrow?\nBe quick."}]' \
    '[{"type": "function", "function": {"name": "get_weather", "description": "Current weather", "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}, "required": ["z"]}}}, {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]' \
    'True -')
gen anthropic claude.json
t_is "$(jq -c .gen "$t_stdout")" '{"max_tokens":1024,"temperature":0.5,"top_k":5,"stop":["END"]}' "gen"

t_begin "anthropic: strings for everything, no tools, thinking off" tiny
echo '{"model":"m","max_tokens":5,"system":"Be kind.","thinking":{"type":"disabled"},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]}' >plain.json
shape anthropic plain.json
t_out_is <(printf '%s\n' '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "tool", "tool_call_id": "x", "content": ""}]' null 'False -')

t_begin "anthropic: what cannot be honoured is refused by name" tiny
image='{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}'
refused anthropic 'anthropic: messages\[0\].content\[1\]: content of type image is not supported' \
    '{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"},'"$image"']}]}'
refused anthropic 'anthropic: messages\[0\].content\[0\].content\[0\]: content of type image is not supported' \
    '{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":['"$image"']}]}]}'
refused anthropic 'anthropic: messages\[0\].content\[0\]: content of type document is not supported' \
    '{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{}}]}]}'
refused anthropic 'anthropic: messages\[0\].content\[0\]: must be of type object' \
    '{"max_tokens":1,"messages":[{"role":"user","content":[7]}]}'
refused anthropic 'anthropic: tools\[0\]: tools of type web_search_20250305 are not supported' \
    '{"max_tokens":1,"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'tool_choice: ' '{"max_tokens":1,"tool_choice":{"type":"any"},"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'tool_choice: ' '{"max_tokens":1,"tool_choice":{"type":"tool","name":"f"},"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'parallel_tool_calls: ' \
    '{"max_tokens":1,"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'mcp_servers: unknown field' '{"max_tokens":1,"mcp_servers":[],"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'anthropic: messages: the last is the assistant' \
    '{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"The answer is ("}]}'
refused anthropic 'anthropic: messages\[0\].role: ' '{"max_tokens":1,"messages":[{"role":"system","content":"a"}]}'
refused anthropic 'anthropic: messages: must be of type array' '{"max_tokens":1,"messages":"a"}'
refused anthropic 'anthropic: thinking: must be of type object' '{"max_tokens":1,"thinking":true,"messages":[{"role":"user","content":"a"}]}'
refused anthropic 'anthropic: the request: must be of type object' '[1]'

t_begin "responses: items of one turn become one message; arguments stay the text that they are" tiny
cat >gpt.json <<'J'
{"model":"gpt-5","instructions":"Be terse.","input":[
  {"role":"developer","content":"No jokes."},
  {"type":"message","role":"user","content":[{"type":"input_text","text":"Weather?"},{"type":"input_text","text":" Now."}]},
  {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"look it up"}],"encrypted_content":"gAAA"},
  {"type":"message","role":"assistant","id":"m0","status":"completed","content":[{"type":"output_text","text":"Looking.","annotations":[]}]},
  {"type":"function_call","id":"fc_1","call_id":"call_1","name":"get_weather","arguments":"{\"city\": \"Rome\",  \"n\":1.0}","status":"completed"},
  {"type":"function_call","id":"fc_2","call_id":"call_2","name":"now","arguments":"{}"},
  {"type":"function_call_output","call_id":"call_1","output":"15"},
  {"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"noon"}]},
  {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"gAAA"},
  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"15 at noon."}]},
  {"role":"user","content":"Thanks"}],
 "tools":[{"type":"function","name":"get_weather","description":"d","parameters":{"type":"object","properties":{"n":{"maximum":9007199254740993}}},"strict":null}],
 "tool_choice":"auto","max_output_tokens":100,"temperature":1.0,"top_p":null,"reasoning":{"effort":"low","summary":null},
 "text":{"format":{"type":"text"},"verbosity":"medium"},"store":false,"stream":true,"parallel_tool_calls":true,"truncation":"disabled",
 "previous_response_id":null,"include":["reasoning.encrypted_content"],"metadata":{},"prompt_cache_key":"k","user":"u"}
J
shape responses gpt.json
t_out_is <(printf '%s\n' '[{"role": "system", "content": "Be terse."}, {"role": "developer", "content": "No jokes."}, {"role": "user", "content": "Weather? Now."}, {"thinking": "look it up", "role": "assistant", "content": "Looking.", "reasoning_content": "look it up", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Rome\",  \"n\":1.0}"}}, {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "15"}, {"role": "tool", "tool_call_id": "call_2", "name": "now", "content": "noon"}, {"role": "assistant", "content": "15 at noon."}, {"role": "user", "content": "Thanks"}]' \
    '[{"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object", "properties": {"n": {"maximum": 9007199254740993}}}}}]' \
    '- low')
gen responses gpt.json
t_out '"gen":\{"max_tokens":100,"temperature":1\.0\}[,}]'

t_begin "responses: several items of reasoning are one message's; any item of a turn may carry its ids" tiny
jq -nc '{input: [{role: "user", content: "a"},
    {type: "reasoning", summary: [{type: "summary_text", text: "one"}]}, {type: "reasoning", content: [{type: "reasoning_text", text: "two"}]},
    {type: "function_call", call_id: "1", name: "f", arguments: "{}"}, {type: "function_call_output", call_id: "1", output: "r"}]}' >items.json
shape responses items.json
t_out '^\[\{"role": "user", "content": "a"\}, \{"thinking": "one\\ntwo", "role": "assistant", "content": "", "reasoning_content": "one\\ntwo", "tool_calls": \[\{"id": "1",.*\}\}\]\}, \{"role": "tool",.*$'
for type in reasoning function_call; do
    jq -c --arg type "$type" '.input |= map(if .type == $type then .akv_ids = [4294967295] else . end)' items.json >ids.json
    t_run 3 akv-tokenize --from responses ids.json
    t_err_line '^akv-tokenize: ids.json: request 1: messages\[1\]\.akv_ids'
done

t_begin "responses: input as a string; two turns of the assistant stay two" tiny
echo '{"input":"Hi"}' >string.json
shape responses string.json
t_out_is <(printf '%s\n' '[{"role": "user", "content": "Hi"}]' null '- -')
echo '{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"},{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}],"summary":[{"type":"summary_text","text":"no"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]}' >two.json
shape responses two.json
t_out '^\[\{"role": "user", "content": "a"\}, \{"role": "assistant", "content": "b"\}, \{"role": "assistant", "content": "c"\}, \{"thinking": "hm", "role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": \[\{"id": "1",.*$'

t_begin "responses: what cannot be honoured is refused by name" tiny
while IFS='|' read -r pattern text; do refused responses "$pattern" "$text"; done <<'LIST'
responses: previous_response_id|{"input":"a","previous_response_id":"resp_1"}
responses: previous_response_id, conversation|{"input":"a","conversation":"conv_1"}
responses: prompt: |{"input":"a","prompt":{"id":"p"}}
responses: background: |{"input":"a","background":true}
responses: text.format: |{"input":"a","text":{"format":{"type":"json_schema","schema":{}}}}
responses: text.format: must be of type object|{"input":"a","text":{"format":"json"}}
responses: text: must be of type object|{"input":"a","text":"json"}
responses: reasoning: must be of type object|{"input":"a","reasoning":"low"}
responses: text.verbosity: |{"input":"a","text":{"verbosity":"low"}}
responses: truncation: |{"input":"a","truncation":"auto"}
responses: input: must be of type array|{"input":5}
responses: input: must be of type array|{"instructions":"x"}
responses: input\[0\].content\[0\]: content of type input_image|{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}
responses: input\[0\]: items of type item_reference|{"input":[{"type":"item_reference","id":"x"}]}
responses: input\[1\]: items of type web_search_call|{"input":[{"role":"user","content":"a"},{"type":"web_search_call"}]}
responses: input\[0\].output: must be of type array|{"input":[{"type":"function_call_output","call_id":"x","output":5}]}
responses: tools\[0\]: tools of type web_search |{"input":"a","tools":[{"type":"web_search"}]}
tool_choice: |{"input":"a","tool_choice":"required"}
top_logprobs: |{"input":"a","top_logprobs":3}
colour: unknown field|{"input":"a","colour":"red"}
LIST

t_begin "sharegpt: the names that data sets use, calls and tools as JSON text" tiny
cat >share.json <<'J'
{"id":"conv_7","system":"Be brief.","tools":"[{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"max\":9007199254740993}}]",
 "conversations":[{"from":"human","value":"Run it."},{"from":"function_call","value":"{\"name\": \"f\", \"arguments\": {\"q\": \"1.0 \\\"7\\\"\", \"n\": 9007199254740993, \"x\": 2.0, \"y\": 1e-07, \"k\": [-3, true]}}"},
  {"from":"observation","value":"done"},{"from":"gpt","value":"It ran."},{"from":"human","value":"Again."}]}
J
shape sharegpt share.json
t_out_is <(printf '%s\n' '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Run it."}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"q": "1.0 \"7\"", "n": 9007199254740993, "x": 2.0, "y": 1e-07, "k": [-3, true]}}}]}, {"role": "tool", "content": "done"}, {"role": "assistant", "content": "It ran."}, {"role": "user", "content": "Again."}]' \
    '[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"max": 9007199254740993}}}]' '- -')
gen sharegpt share.json
t_is "$(jq -r .id "$t_stdout")" conv_7 "id"
printf '%s\n' '{"id":1,"conversations":[{"from":"system","value":"s"},{"from":"user","value":"a"},{"from":"assistant","value":"b"},{"from":"human","value":"c"}]}' \
    '{"conversations":[{"from":"human","value":"d"}]}' >set.jsonl
shape sharegpt set.jsonl
t_out '^\[\{"role": "system", "content": "s"\}, \{"role": "user", "content": "a"\}, \{"role": "assistant", "content": "b"\}, \{"role": "user", "content": "c"\}\]$'
refused sharegpt 'sharegpt: conversations\[0\].from: alien is nobody' '{"conversations":[{"from":"alien","value":"a"}]}'
refused sharegpt 'sharegpt: conversations\[0\].value: must be of type string' '{"conversations":[{"from":"human","value":["a"]}]}'
refused sharegpt 'sharegpt: conversations\[0\].value: not valid JSON' '{"conversations":[{"from":"function_call","value":"{name"}]}'
refused sharegpt 'sharegpt: conversations\[0\].value: must be of type object' '{"conversations":[{"from":"function_call","value":"5"}]}'
refused sharegpt 'sharegpt: conversations\[0\].value.name: must be of type string' '{"conversations":[{"from":"tool_call","value":"[{}]"}]}'
refused sharegpt 'sharegpt: conversations: must be of type array' '{"messages":[]}'
refused sharegpt 'score: unknown field' '{"score":3,"conversations":[{"from":"human","value":"a"}]}'
t_run 0 akv-tokenize --ignore-unknown --from sharegpt bad.json

# each of these once took the square of its length
t_begin "large ones: a thousand tools as text, a conversation of many turns, a long message" tiny
jq -nc '[range(1000) | {name: "f\(.)\\\"", description: "no. \(.)\\", parameters: {n: (., 1.0, "", "2"), "[": 9007199254740}}]' >tools.json
jq -Rsc '{conversations: [{from: "human", value: "a"}], tools: .}' tools.json >many.json
echo '{{ tools | map(attribute="function") | list | tojson }}' >tools.jinja
t_run 0 akv-tokenize --from sharegpt --render --template tools.jinja many.json
t_same <(jq -c . "$t_stdout") tools.json
{ for i in {1..3000}; do printf 'User: a %d\nAI: b %d\n' "$i" "$i"; done; seq -f 'line %.0f' 20000; } >long.txt
t_run 0 akv-tokenize --from transcript --render --template shape.jinja long.txt
t_is "$(head -n 1 "$t_stdout" | jq -c '[length, .[5998].content, (.[-1].content | length, .[:15], .[-10:])]')" \
    "$(jq -nc '[6000, "a 3000", ("b 3000\n" + ([range(1; 20001) | "line \(.)"] | join("\n")) | length, .[:15], .[-10:])]')" "messages"
jq -nc '{input: [range(2000) as $i | {role: "user", content: "q"}, {type: "function_call", call_id: "c\($i)", name: "f\($i)", arguments: "{}"},
    {type: "function_call_output", call_id: "c\($i)", output: "o"}]}' >calls.json
t_run 0 akv-tokenize --from responses --render --template shape.jinja calls.json
t_is "$(head -n 1 "$t_stdout" | jq -c '[length, .[-1].name]')" '[6000,"f1999"]' "results with the names of their tools"

t_begin "transcript: text before the first name is the system's; a name alone at the end asks for the reply" tiny
printf 'Be nice.\n\nUser: Grüezi: hello\nline: two\n\n  indented\n\nASSISTANT: Hi\r\nthere\r\nHuman:\n\nwhat?\nTool: 42\nAI: ok\nUser: bye\nAssistant:\n' >talk.txt
shape transcript talk.txt
t_out_is <(printf '%s\n' '[{"role": "system", "content": "Be nice."}, {"role": "user", "content": "Grüezi: hello\nline: two\n\n  indented"}, {"role": "assistant", "content": "Hi\nthere"}, {"role": "user", "content": "what?"}, {"role": "tool", "content": "42"}, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "bye"}]' null '- -')
printf 'User: one' >one.txt
t_run 0 akv-tokenize --from transcript --render --template shape.jinja one.txt - <talk.txt
t_is "$(grep -c '^\[' "$t_stdout")" 2 "a file is a request"
printf 'no name here\n' >none.txt
t_run 3 akv-tokenize --from transcript none.txt
t_err_line '^akv-tokenize: none.txt: request 1: transcript: no line begins with'
printf 'User: \377\n' >latin.txt
t_run 3 akv-tokenize --from transcript latin.txt
t_err_line '^akv-tokenize: latin.txt: the text is not valid UTF-8'
t_run 3 akv-tokenize --from transcript /dev/null
t_err_line '^akv-tokenize: /dev/null: empty input'

t_begin "a format that there is not; options that exclude each other" tiny
t_run 2 akv-tokenize --from grok plain.json
t_err_line '^akv-tokenize: --from: grok: no such format: there are anthropic, responses, sharegpt and transcript$'
echo . >same.jq
t_run 2 akv-tokenize --from anthropic -f same.jq plain.json
t_run 2 akv-tokenize --from anthropic --raw plain.json
t_run 2 akv-tokenize --from anthropic --decode plain.json

t_begin "a program of one's own: a log, and text that it gets as one string" tiny
cp "$TOP/examples/adapter.jq" .
echo '{"session":"s1","rules":"Be careful.","steps":[{"ask":"What is here?"},{"run":"ls","got":"a b"},{"say":"Two files."},{"ask":"Which?"}]}' >log.json
t_run 0 akv-tokenize -f adapter.jq --render --template shape.jinja log.json
t_out_is <(printf '%s\n' '[{"role": "system", "content": "Be careful."}, {"role": "user", "content": "What is here?"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "shell", "arguments": {"command": "ls"}}}]}, {"role": "tool", "name": "shell", "content": "a b"}, {"role": "assistant", "content": "Two files."}, {"role": "user", "content": "Which?"}]' null '- -')
echo '{"session":"s1","rules":"r","steps":[{"hum":1}]}' >hum.json
t_run 3 akv-tokenize -f adapter.jq hum.json
t_err_line '^akv-tokenize: hum.json: request 1: jq program: a step that is neither'
printf '%s\n' 'split("\n")[] | select(. != "") | {messages: [{role: "user", content: .}]}' >lines.jq
printf 'one\ntwo\n' >lines.txt
t_run 0 akv-tokenize --raw -f lines.jq --render --template shape.jinja lines.txt
t_is "$(grep -c '^\[' "$t_stdout")" 2 "requests"

t_begin "a signal ends a program that would run for ever: nothing of the output is left, what stood there before is" tiny
printf '%s\n' 'if .id == "a" then . else def f: f; f end' >endless.jq
printf '%s\n' '{"id":"a","prompt":"Hi"}' '{"id":"b"}' >two.json
mkdir out && echo before >out/tokens
akv-tokenize -v -f endless.jq -o out/tokens two.json 2>begun &
tool=$!
until grep -q '^akv-tokenize: a: ' begun; do sleep 0.05; done
t_is "$(find out -type f | wc -l)" 2 "files while it runs"
kill -TERM $tool
for ((i = 0; i < 400; i++)); do
    kill -0 $tool 2>/dev/null || break
    sleep 0.05
done
kill -KILL $tool 2>/dev/null
wait $tool
t_is $? 143 "exit status"
t_is "$(find out -type f -exec cat {} +)" before "what is left"

t_begin "the manual prints that program as it is, and the programs of the formats are installed" tiny
sed -n '/^\.Pa adapter\.jq/,/^\.Ed/p' "$TOP/man/akv-tokenize.1" | sed -n '/^\.Bd/,/^\.Ed/{/^\.[BE]d/d;s/\\e/\\/g;p}' >printed.jq
t_same "$TOP/examples/adapter.jq" printed.jq
t_run 0 make -s -o all -C "$TOP" BUILD="$AKV_BUILD" MAKEFLAGS= install DESTDIR="$T/dest" PREFIX=/opt
for name in anthropic responses sharegpt transcript; do
    t_same "$TOP/lib/chat/normalise/$name.jq" "dest/opt/share/akv/normalise/$name.jq"
done
t_end
