package claude

import (
	"encoding/json"
	"strings"
)

const jsonInstruction = "The caller set desired_format to json. Your final answer must be exactly one valid JSON value and nothing else: " +
	"no code fence, no explanation before or after it."

// repairPrompt asks for the answer again, in the same session.
func repairPrompt(problem string) string {
	return "Your last answer is not valid JSON (" + problem + "). " +
		"Answer again with exactly one valid JSON value and nothing else. Do not use tools."
}

// jsonOutput strips one code fence and checks that the rest is one JSON value. problem is
// the error, empty if there is none.
func jsonOutput(text string) (output, problem string) {
	output = stripFence(strings.TrimSpace(text))
	var value json.RawMessage
	if err := json.Unmarshal([]byte(output), &value); err != nil {
		return output, err.Error()
	}
	return output, ""
}

// stripFence removes one ``` fence around the whole text.
func stripFence(text string) string {
	body, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	_, body, ok = strings.Cut(body, "\n") // the rest of the first line names the language
	if !ok {
		return text
	}
	body, ok = strings.CutSuffix(strings.TrimRight(body, " \t\r\n"), "```")
	if !ok {
		return text
	}
	return strings.TrimSpace(body)
}
