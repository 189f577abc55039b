package claude

import (
	"strings"

	"github.com/bloom-runtime/bloom"
)

// meter adds up what a run used, from the stream, so that a run that is killed
// still has its tokens and an estimate of its cost. Usage is counted once a
// message id: the stream repeats a message for each of its blocks, and its
// last word on a message is the complete one.
type meter struct {
	messages map[string]counted
	current  string // the message whose stream events arrive
	model    string
	resumed  bool    // the present turn goes on with an older session
	cost     float64 // of finished turns, as claude said
	turns    int64
	settled  usage // of finished turns
	source   string
}

type counted struct {
	usage usage
	model string
}

func (m *meter) add(id, model string, u *usage) {
	if id == "" || u == nil {
		return
	}
	if m.messages == nil {
		m.messages = map[string]counted{}
	}
	before := m.messages[id]
	if model == "" {
		model = before.model
	}
	m.messages[id] = counted{model: model, usage: usage{
		Input:         max(before.usage.Input, u.Input),
		Output:        max(before.usage.Output, u.Output),
		CacheCreation: max(before.usage.CacheCreation, u.CacheCreation),
		CacheRead:     max(before.usage.CacheRead, u.CacheRead),
	}}
	if model != "" && !strings.HasPrefix(model, "<") { // "<synthetic>" is claude's own voice
		m.model = model
	}
}

// observe counts what a line of the stream says.
func (m *meter) observe(line message) {
	switch {
	case line.Type == "assistant" && line.Message != nil:
		m.add(line.Message.ID, line.Message.Model, line.Message.Usage)
	case line.Type == "system" && line.Subtype == "init":
		m.source = line.APIKeySource
	case line.Type == "stream_event" && line.Event != nil:
		if line.Event.Message != nil {
			m.current = line.Event.Message.ID
			m.add(m.current, line.Event.Message.Model, line.Event.Message.Usage)
		}
		if line.Event.Usage != nil {
			m.add(m.current, "", line.Event.Usage)
		}
	case line.Type == "result":
		m.settle(line)
	}
}

// settle takes a turn's result as the last word on it where it says more than
// the stream did. What claude says of a resumed session counts from the
// session's beginning, so it is taken only where it is known to mean this turn.
func (m *meter) settle(line message) {
	live := m.live()
	models, cost := line.SinceLast, 0.0
	if models == nil && !m.resumed {
		models = line.ModelUsage
	}
	var said usage
	for _, u := range models {
		said = sum(said, usage{u.Input, u.Output, u.CacheCreation, u.CacheRead})
		cost += u.CostUSD
	}
	m.settled = sum(m.settled, usage{
		Input:         max(live.Input, said.Input),
		Output:        max(live.Output, said.Output),
		CacheCreation: max(live.CacheCreation, said.CacheCreation),
		CacheRead:     max(live.CacheRead, said.CacheRead),
	})
	switch {
	case line.SinceLast != nil:
		m.cost += cost
	case line.TotalCostUSD != nil && !m.resumed:
		m.cost += *line.TotalCostUSD
	default:
		m.cost += m.liveCost()
	}
	m.turns += line.NumTurns
	m.messages = nil
}

func (m *meter) live() usage {
	var total usage
	for _, c := range m.messages {
		total = sum(total, c.usage)
	}
	return total
}

func sum(a, b usage) usage {
	return usage{a.Input + b.Input, a.Output + b.Output, a.CacheCreation + b.CacheCreation, a.CacheRead + b.CacheRead}
}

// total is everything so far.
func (m *meter) total() usage { return sum(m.settled, m.live()) }

// budget is the tokens that count against policy.budget.
func (u usage) budget() int64 { return u.Input + u.Output + u.CacheCreation }

// pricesPerMillion are list prices in US dollars, by a word in the model's
// name. They serve only runs that were killed before claude named the cost.
var pricesPerMillion = []struct {
	word          string
	input, output float64
}{
	{"haiku", 1, 5},
	{"sonnet", 3, 15},
	{"opus", 5, 25},
}

// costSoFar is what finished turns cost, and an estimate of the one under way.
func (m *meter) costSoFar() float64 { return m.cost + m.liveCost() }

func (m *meter) liveCost() float64 {
	var cost float64
	for _, c := range m.messages {
		for _, price := range pricesPerMillion {
			if strings.Contains(c.model, price.word) {
				u := c.usage
				// Cache writes cost a quarter more than input, reads a tenth of it.
				cost += (price.input*(float64(u.Input)+1.25*float64(u.CacheCreation)+0.1*float64(u.CacheRead)) +
					price.output*float64(u.Output)) / 1e6
				break
			}
		}
	}
	return cost
}

// metrics is the meter as a completion carries it. Input tokens include cache
// creation, so that input and output add up to the tokens used.
func (m *meter) metrics(durationMS int64) bloom.Metrics {
	total := m.total()
	out := bloom.Metrics{DurationMS: max(durationMS, 0), Model: m.model, CostKind: "none"}
	if total == (usage{}) {
		return out
	}
	used, input, output := total.budget(), total.Input+total.CacheCreation, total.Output
	cost := m.costSoFar()
	out.TokensUsed, out.InputTokens, out.OutputTokens, out.CostUSD = &used, &input, &output, &cost
	out.CostKind = m.costKind()
	if m.turns > 0 {
		turns := m.turns
		out.NumTurns = &turns
	}
	return out
}

// costKind: on a subscription nobody pays the cost that claude names.
func (m *meter) costKind() string {
	if m.source == "" || m.source == "none" {
		return "subscription_estimate"
	}
	return "api_usd"
}
