# OpenAI Responses to chat completions.
#
# Reasoning, text and calls of one turn of the assistant are items of their own there; they become one message. Fields that are
# not known here are passed on, to be refused by name.

def expect($kind; $where):
  if type == $kind then . else error("\($where): must be of type \($kind)") end;

# A content: its text. The parts of one are joined as they are.
def text($where):
  if type == "string" then . else
    [expect("array"; $where) | to_entries[] | "\($where)[\(.key)]" as $here | .value | expect("object"; $here)
     | if .type == "input_text" or .type == "output_text" or .type == "text" then .text | expect("string"; $here + ".text")
       elif .type == "refusal" then .refusal | expect("string"; $here + ".refusal")
       else error("\($here): content of type \(.type | tostring | .[:40]) is not supported") end]
    | join("")
  end;

# The text of a reasoning item, or its summary where that is all there is.
def thoughts:
  ([.content // [] | .[]? | .text? | strings], [.summary // [] | .[]? | .text? | strings])
  | select(. != []) | join("\n");

def call($where):
  {id: .call_id, type: "function",
   function: {name: (.name | expect("string"; $where + ".name")), arguments: (.arguments | expect("string"; $where + ".arguments"))}};

# Whether the last message is one of the assistant, which takes what comes after what it has; and one of thinking alone.
def is_open: length > 0 and .[-1].role == "assistant";
def is_thinking: is_open and (.[-1] | .content == "" and (has("tool_calls") | not));

def add_item($item; $names; $where):
  ($item | .type // (if has("role") then "message" else "unknown" end)) as $type
  | ($item | if .akv_ids then {akv_ids} else {} end) as $ids
  | if $type == "message" then
      {role: ($item.role | expect("string"; $where + ".role")), content: ($item.content | text($where + ".content"))} as $m
      | if $m.role == "assistant" and is_thinking then .[-1] += {content: $m.content} + $ids else . + [$m + $ids] end
    elif $type == "reasoning" then
      ([$item | thoughts][0]) as $text
      | if $text == null and $ids == {} then .
        elif is_thinking then .[-1] += {reasoning_content: ([.[-1].reasoning_content, $text | strings] | join("\n"))} + $ids
        else . + [{role: "assistant", content: "", reasoning_content: $text} + $ids] end
    elif $type == "function_call" then
      ($item | call($where)) as $call
      | if is_open then .[-1] |= . + $ids + {tool_calls: (.tool_calls + [$call])}
        else . + [{role: "assistant", content: "", tool_calls: [$call]} + $ids] end
    elif $type == "function_call_output" then
      (if ($item.call_id | type) == "string" then $names[$item.call_id] else null end) as $name
      | . + [{role: "tool", tool_call_id: $item.call_id} + (if $name then {name: $name} else {} end)
             + {content: ($item.output | text($where + ".output"))}]
    else error("\($where): items of type \($type | tostring | .[:40]) are not supported") end;

# Names of the tools by the ids of their calls: templates may want them with a result.
def call_names:
  [.[] | objects | select(.type == "function_call" and (.call_id | type) == "string") | {(.call_id): .name}] | add // {};

def all_messages:
  (if .instructions == null then [] else [{role: "system", content: (.instructions | expect("string"; "instructions"))}] end)
  + (if (.input | type) == "string" then [{role: "user", content: .input}]
     else (.input | expect("array"; "input") | call_names) as $names | reduce (.input | to_entries[]) as $e ([];
       "input[\($e.key)]" as $here | add_item($e.value | expect("object"; $here); $names; $here)) end);

def tool($where):
  expect("object"; $where)
  | if .type != "function" then error("\($where): tools of type \(.type | tostring | .[:40]) are not supported") else . end
  | {type, function: (del(.type) | with_entries(select(.value != null)))};

# Nothing, or the error that a setting asks for something that cannot be done.
def refuse($bad; $why): if $bad then error($why) else . end;

expect("object"; "the request")
| with_entries(select(.value != null))
| reduce ("reasoning", "text") as $name (.; if has($name) then .[$name] |= expect("object"; $name) else . end)
| refuse(.previous_response_id or .conversation; "previous_response_id, conversation: earlier turns are not here: send them as input")
| refuse(.prompt; "prompt: stored prompts are not here: send the text")
| refuse(.background; "background: not supported")
| refuse((.text.format | type != "null" and type != "object"); "text.format: must be of type object")
| refuse((.text.format.type // "text") != "text"; "text.format: only type text is supported")
| refuse((.text.verbosity // "medium") != "medium"; "text.verbosity: not supported with this value")
| refuse((.truncation // "disabled") != "disabled"; "truncation: nothing is left out here")
| {messages: all_messages}
  + (if has("tools") then {tools: [.tools | expect("array"; "tools") | to_entries[] | .key as $i | .value | tool("tools[\($i)]")]} else {} end)
  + (if has("max_output_tokens") then {max_tokens: .max_output_tokens} else {} end)
  + (if .reasoning.effort then {reasoning_effort: .reasoning.effort} else {} end)
  + del(.instructions, .input, .tools, .max_output_tokens, .reasoning, .text, .truncation, .background, .include, .max_tool_calls)
