# ShareGPT conversations to chat completions. Fields that are not known here are passed on, to be refused by name.

def expect($kind; $where):
  if type == $kind then . else error("\($where): must be of type \($kind)") end;

def marked: gsub("(?<n>-?[0-9][0-9.eE+-]*)"; "\"\ue000\(.n)\"");

# Whether a quote behind this is escaped: an odd number of backslashes at the end.
def escapes: length - (explode | until(length == 0 or .[-1] != 92; .[:-1]) | length) | . % 2 == 1;

# JSON text is what some data sets hold where others hold the value. Numbers are marked, as akv-tokenize marks those
# of its input that jq would change: between the quotes, piece by piece, as a search in the whole takes the square of its length.
def parsed($where):
  if type == "string" then
    [foreach split("\"")[] as $piece ({inside: true};
       {inside: (if .inside then .escaped else true end), escaped: false, text: $piece}
       | if .inside then .escaped = ($piece | escapes) else .text |= marked end;
       "\"" + .text)]
    | [add[1:] | try [fromjson] catch null][0] # in an array: try would also catch what fails behind it
    | if . then .[0] else error("\($where): not valid JSON") end
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
