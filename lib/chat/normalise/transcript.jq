# A plain transcript, one text, to chat completions. A line that begins with a name and a colon begins a message; akv-tokenize(1)
# says which names. Text before the first is the system's.

def labels: {
  "system:": "system", "user:": "user", "human:": "user", "assistant:": "assistant", "ai:": "assistant", "tool:": "tool"};

def blank: explode | all(. == 32 or (. >= 9 and . <= 13));

# Without the blank lines around it.
def trimmed:
  until(length == 0 or (.[0] | blank | not); .[1:]) | until(length == 0 or (.[-1] | blank | not); .[:-1])
  | (map("\n" + .) | add // "")[1:]; # join copies all that it has for every line

def after_label: if startswith(" ") then .[1:] else . end;

# A line, and the role if it begins a message.
def line:
  (index(":") // -1) as $colon
  | (if $colon < 0 or $colon > 9 then null else labels[.[:$colon + 1] | ascii_downcase] end) as $role
  | if $role then {role: $role, text: (.[$colon + 1:] | after_label)} else {text: .} end;

# Messages are cut out of all lines at once: growing them line by line would copy each for every line.
[{role: "system", text: ""}, (split("\n")[] | rtrimstr("\r") | line)] as $lines
| [range($lines | length) | select($lines[.].role)] as $starts
| if ($starts | length) == 1 then error("no line begins with User: or another of the names") else . end
| [range($starts | length) as $i | $lines[$starts[$i]:$starts[$i + 1]] | {role: .[0].role, content: (map(.text) | trimmed)}]
| if .[0].content == "" then .[1:] else . end
| if .[-1] == {role: "assistant", content: ""} then .[:-1] else . end
| {messages: .}
