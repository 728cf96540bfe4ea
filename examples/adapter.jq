# A session of an agent that keeps its log in a shape of its own:
#   {"session": "s1", "rules": "...", "steps": [{"ask": "..."}, {"say": "..."}, {"run": "ls", "got": "a b"}]}
# Every run becomes a call of the tool "shell" and its result.
{
  id: .session,
  messages: (
    [{role: "system", content: .rules}]
    + [.steps[]
       | if .ask then {role: "user", content: .ask}
         elif .say then {role: "assistant", content: .say}
         elif .run then
           {role: "assistant", content: "",
            tool_calls: [{type: "function", function: {name: "shell", arguments: {command: .run}}}]},
           {role: "tool", name: "shell", content: .got}
         else error("a step that is neither ask, say nor run")
         end]
  )
}
