# A plain transcript, one text, to chat completions. A line that begins with a name and a colon begins a message; akv-tokenize(1)
# says which names. Text before the first is the system's.

def labels: {
  "system:": "system", "user:": "user", "human:": "user", "assistant:": "assistant", "ai:": "assistant", "tool:": "tool"};

def blank: explode | all(. == 32 or (. >= 9 and . <= 13));

# Without the blank lines around it.
def trimmed:
  until(length == 0 or (.[0] | blank | not); .[1:]) | until(length == 0 or (.[-1] | blank | not); .[:-1]) | join("\n");

def after_label: if startswith(" ") then .[1:] else . end;

reduce (split("\n")[] | rtrimstr("\r")) as $line ([{role: "system", lines: []}];
  ($line | index(":") // -1) as $colon
  | (if $colon < 0 or $colon > 9 then null else labels[$line[:$colon + 1] | ascii_downcase] end) as $role
  | if $role then . + [{role: $role, lines: [$line[$colon + 1:] | after_label]}]
    else .[-1].lines += [$line] end)
| if length == 1 then error("no line begins with User: or another of the names") else . end
| map({role, content: (.lines | trimmed)})
| if .[0].content == "" then .[1:] else . end
| if .[-1] == {role: "assistant", content: ""} then .[:-1] else . end
| {messages: .}
