package claude

// continuedAnswer follows an answer that the model continues within the turn because it reached
// the maximum output or its stream broke off. claude's result has the last part only.
type continuedAnswer struct {
	earlier string // the parts before the present message
	id      string // of the present message
	text    string // of the present message
	stop    string // its stop reason; empty until its end, and if it broke off
}

func (a *continuedAnswer) observe(m message) {
	if m.Parent != "" || m.Message.synthetic() {
		return
	}
	switch {
	case m.Type == "system" && m.Subtype == "init":
		*a = continuedAnswer{}
	case m.Type == "stream_event" && m.Event != nil:
		if m.Event.Type == "message_start" && m.Event.Message != nil {
			a.begin(m.Event.Message.ID)
		}
		a.ends(m.Event.Delta.StopReason)
	case m.Type == "assistant" && m.Message != nil:
		a.write(m.Message)
	case m.Type == "user":
		a.request(m.Message)
	}
}

func (a *continuedAnswer) begin(id string) { a.id, a.text, a.stop = id, "", "" }

func (a *continuedAnswer) ends(reason string) {
	if reason != "" {
		a.stop = reason
	}
}

// write adds a block of the model's message. A tool call makes what precedes it no part of the answer.
func (a *continuedAnswer) write(m *turnMessage) {
	if m.ID != a.id { // it was not streamed
		a.begin(m.ID)
	}
	a.ends(m.StopReason)
	for _, b := range m.blocks() {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "tool_use":
			a.earlier, a.text = "", ""
		}
	}
}

// request handles what claude tells the model next: to continue, if the message was cut off or had
// no text, else something new, such as the result of a tool or the objection of a hook.
func (a *continuedAnswer) request(m *turnMessage) {
	for _, b := range m.blocks() {
		cut := a.stop == "" || a.stop == "max_tokens"
		if b.Type == "text" && (cut || a.text == "") {
			a.earlier += a.text
		} else {
			a.earlier = ""
		}
		a.text = ""
	}
}
