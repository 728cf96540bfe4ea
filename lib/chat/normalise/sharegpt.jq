# ShareGPT conversations to chat completions. Fields that are not known here are passed on, to be refused by name.

def expect($kind; $where):
  if type == $kind then . else error("\($where): must be of type \($kind)") end;

# JSON text is what some data sets hold where others hold the value. Numbers are marked, as akv-tokenize marks those
# of its input that jq would change.
def parsed($where):
  if type == "string" then
    gsub("(?<text>\"([^\"\\\\]|\\\\.)*\")|(?<n>-?[0-9][0-9.eE+-]*)"; if .n then "\"\ue000\(.n)\"" else .text end)
    | . as $s | try ($s | fromjson) catch error("\($where): not valid JSON")
  else . end;

def roles: {
  system: "system", human: "user", user: "user", gpt: "assistant", assistant: "assistant", model: "assistant", chatgpt: "assistant",
  tool: "tool", observation: "tool", function_response: "tool", function_call: "call", tool_call: "call"};

def calls($where):
  parsed($where) | if type == "array" then . else [.] end
  | [.[] | expect("object"; $where) | {type: "function", function: {name: (.name | expect("string"; $where + ".name")), arguments: (.arguments // {})}}];

def message($where):
  expect("object"; $where)
  | (roles[.from | expect("string"; $where + ".from")] // error("\($where).from: \(.from[:40]) is nobody known here")) as $role
  | if $role == "call" then {role: "assistant", content: "", tool_calls: (.value | calls($where + ".value"))}
    else {role: $role, content: (.value | expect("string"; $where + ".value"))} end
    + (if .akv_ids then {akv_ids} else {} end);

expect("object"; "the request")
| {messages:
     ((if .system == null or .system == "" then [] else [{role: "system", content: (.system | expect("string"; "system"))}] end)
      + [.conversations | expect("array"; "conversations") | to_entries[] | .key as $i | .value | message("conversations[\($i)]")])}
  + (if .tools == null or .tools == "" then {} else
       {tools: [.tools | parsed("tools") | expect("array"; "tools") | .[] | if has("function") then . else {type: "function", function: .} end]} end)
  + del(.conversations, .system, .tools)
