# Anthropic Messages to chat completions.
#
# A message that holds tool results becomes one tool message for each, and one of the user for the text around them. Text blocks
# that stand together are joined by a newline. Fields that are not known here are passed on, to be refused by name.

def expect($kind; $where):
  if type == $kind then . else error("\($where): must be of type \($kind)") end;

def unsupported($where):
  error("\($where): content of type \(.type | tostring | .[:40]) is not supported");

# Blocks: a string stands for one block of text.
def blocks($where):
  if type == "string" then [{type: "text", text: .}] else expect("array"; $where) end;

# The text of blocks that can be nothing else.
def plain($where):
  [blocks($where) | to_entries[] | "\($where)[\(.key)]" as $here | .value | expect("object"; $here)
   | if .type == "text" then .text | expect("string"; $here + ".text") else unsupported($here) end]
  | join("\n");

def tool_message($names; $where):
  (.tool_use_id | expect("string"; $where + ".tool_use_id")) as $id
  | {role: "tool", tool_call_id: $id}
    + (if $names[$id] then {name: $names[$id]} else {} end)
    + {content: ((.content // "") | plain($where + ".content"))}
    + (if .is_error then {is_error: true} else {} end);

# What a user says, and results of tools, in the order of the blocks.
def user_messages($names; $where):
  reduce (.content | blocks($where + ".content") | to_entries[]) as $e ([];
    "\($where).content[\($e.key)]" as $here
    | ($e.value | expect("object"; $here)) as $b
    | if $b.type == "tool_result" then . + [$b | tool_message($names; $here)]
      elif $b.type == "text" then
        ($b.text | expect("string"; $here + ".text")) as $text
        | if length > 0 and .[-1].role == "user" then .[-1].content += "\n" + $text
          else . + [{role: "user", content: $text}] end
      else $b | unsupported($here) end);

def tool_call($where):
  {id: .id, type: "function",
   function: {name: (.name | expect("string"; $where + ".name")), arguments: (.input // {})}};

def assistant_message($where):
  reduce (.content | blocks($where + ".content") | to_entries[]) as $e (
    {texts: [], thoughts: [], calls: []};
    "\($where).content[\($e.key)]" as $here
    | ($e.value | expect("object"; $here)) as $b
    | if $b.type == "text" then .texts += [$b.text | expect("string"; $here + ".text")]
      elif $b.type == "thinking" then .thoughts += [$b.thinking | expect("string"; $here + ".thinking")]
      elif $b.type == "redacted_thinking" then .
      elif $b.type == "tool_use" then .calls += [$b | tool_call($here)]
      else $b | unsupported($here) end)
  | {role: "assistant", content: (.texts | join("\n"))}
    + (if .thoughts == [] then {} else {reasoning_content: (.thoughts | join("\n"))} end)
    + (if .calls == [] then {} else {tool_calls: .calls} end);

# Names of the tools by the ids of their calls: templates may want them with a result.
def call_names:
  [.[] | select(type == "object") | .content | arrays | .[] | objects | select(.type == "tool_use" and (.id | type) == "string")
   | {(.id): .name}] | add // {};

def all_messages:
  (.messages | expect("array"; "messages")) as $list
  | ($list | call_names) as $names
  | (if .system == null then [] else [{role: "system", content: (.system | plain("system"))}] end)
    + [$list | to_entries[] | "messages[\(.key)]" as $here | .value | expect("object"; $here)
       | if .role == "user" then user_messages($names; $here)[]
         elif .role == "assistant" then assistant_message($here) + (if .akv_ids then {akv_ids} else {} end)
         else error("\($here).role: must be user or assistant") end];

def tool($where):
  expect("object"; $where)
  | if (.type // "custom") != "custom" then error("\($where): tools of type \(.type | tostring | .[:40]) are not supported") else . end
  | {type: "function",
     function: ({name, description, parameters: .input_schema} + del(.name, .description, .input_schema, .type, .cache_control)
                | with_entries(select(.value != null)))};

def tool_choice:
  if .type == "auto" or .type == "none" then .type
  elif .type == "any" then "required"
  else {type: "function", function: {name}} end;

expect("object"; "the request")
| if (.messages | type) == "array" and (.messages[-1] | type) == "object" and .messages[-1].role == "assistant"
     and .add_generation_prompt != false then
    error("messages: the last is the assistant's: going on with a reply is not supported")
  else . end
| {messages: all_messages}
  + (if .tools == null then {} else {tools: [.tools | expect("array"; "tools") | to_entries[] | .key as $i | .value | tool("tools[\($i)]")]} end)
  + (if .tool_choice == null then {} else
       {tool_choice: (.tool_choice | expect("object"; "tool_choice") | tool_choice)}
       + (if .tool_choice.disable_parallel_tool_use then {parallel_tool_calls: false} else {} end) end)
  + (if .stop_sequences == null then {} else {stop: .stop_sequences} end)
  + (if .thinking == null then {} else
       {chat_template_kwargs: {enable_thinking: (.thinking | expect("object"; "thinking") | .type != "disabled")}} end)
  + del(.messages, .system, .tools, .tool_choice, .stop_sequences, .thinking)
