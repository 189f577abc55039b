package standin

import (
	"crypto/rand"
	"fmt"
	"path"
	"strings"
)

// CannedLabel is the prefix of every canned answer, so that it is not mistaken for a model's.
const CannedLabel = "[canned answer, no model was asked]"

// Canned is the demo's responder. It writes one small file with the command line's own tool, which
// shows that tools work, and then reports it. If the caller requests JSON, it answers in JSON.
func Canned(request Request) Reply {
	usage := Usage{Input: 120, Output: 40}
	system := request.SystemText()
	switch {
	case len(request.Tools) == 0:
		return Reply{Text: CannedLabel, Usage: usage}
	case strings.Contains(system, "JSON") && strings.Contains(system, "desired_format"):
		return Reply{Text: fmt.Sprintf(`{"canned": true, "note": %q}`, CannedLabel), Usage: usage}
	case request.HasToolResult():
		return Reply{
			Text: CannedLabel + "\n\nA file bloom-demo-*.txt now lies in the worker's folder. " +
				"The queue, the lease, the worker, the claude command line and its tools all did their part; " +
				"only the words are canned.",
			Usage: usage,
		}
	default:
		dir := workingDirectory(request)
		if dir == "" {
			return Reply{Text: CannedLabel, Usage: usage}
		}
		reply := Tool(CannedLabel+" I will leave a file to show that tools work.", "Write", map[string]any{
			// A new name each time: a file that exists must be read before it is written.
			"file_path": path.Join(dir, "bloom-demo-"+strings.ToLower(rand.Text()[:8])+".txt"),
			"content":   "written by the canned demonstration, no model was asked\n",
		})
		reply.Usage = usage
		return reply
	}
}

// workingDirectory returns the command line's working folder; the file tools require absolute paths.
func workingDirectory(request Request) string {
	_, after, _ := strings.Cut(request.SystemText()+"\n"+request.Conversation(), "orking directory: ")
	dir, _, _ := strings.Cut(after, "\n")
	if !path.IsAbs(dir) {
		return ""
	}
	return dir
}
