package bloom

import "math"

// Limits of what one attempt adds to a sum. No attempt uses as much, but a worker's report must not
// make a sum overflow, because every transaction that adds to it would fail.
const (
	MaxTokens  = int64(1e12)
	MaxCostUSD = 1e4
)

// Tokens returns how many tokens an attempt used, 0 when unknown, at most MaxTokens.
func (m Metrics) Tokens() int64 {
	if m.TokensUsed != nil {
		return tokens(m.TokensUsed)
	}
	in, out := m.TokensInOut()
	return min(in+out, MaxTokens)
}

// TokensInOut returns the input and output tokens of an attempt, 0 when unknown, at most MaxTokens
// each.
func (m Metrics) TokensInOut() (in, out int64) { return tokens(m.InputTokens), tokens(m.OutputTokens) }

func tokens(n *int64) int64 {
	if n == nil {
		return 0
	}
	return min(max(*n, 0), MaxTokens)
}

// CostNano returns the cost of an attempt in billionths of a US dollar, 0 when unknown, at most
// MaxCostUSD.
func (m Metrics) CostNano() int64 {
	if m.CostUSD == nil || math.IsNaN(*m.CostUSD) {
		return 0
	}
	return int64(math.Round(min(max(*m.CostUSD, 0), MaxCostUSD) * nano))
}

const nano = 1e9

// Usage is what an attempt, or several, have used.
type Usage struct {
	TokensUsed   int64   `json:"tokens_used" required:"false" minimum:"0" doc:"Input, output and cache creation"`
	InputTokens  int64   `json:"input_tokens" required:"false" minimum:"0" doc:"Cache creation included"`
	OutputTokens int64   `json:"output_tokens" required:"false" minimum:"0"`
	CostUSD      float64 `json:"cost_usd" required:"false" minimum:"0" doc:"An estimate while a run continues"`
}

// Usage returns what an attempt used, each value at most its limit.
func (m Metrics) Usage() Usage {
	in, out := m.TokensInOut()
	return Usage{m.Tokens(), in, out, Dollars(m.CostNano())}
}

// WithUsage returns the metrics with u as what the attempt used.
func (m Metrics) WithUsage(u Usage) Metrics {
	m.TokensUsed, m.InputTokens, m.OutputTokens, m.CostUSD = &u.TokensUsed, &u.InputTokens, &u.OutputTokens, &u.CostUSD
	return m
}

// Bounded returns u with each value at most its limit. Without TokensUsed it is the sum of input
// and output.
func (u Usage) Bounded() Usage {
	m := Metrics{}.WithUsage(u)
	if u.TokensUsed == 0 {
		m.TokensUsed = nil
	}
	return m.Usage()
}

// CostNano returns the cost in billionths of a US dollar.
func (u Usage) CostNano() int64 { return int64(math.Round(u.CostUSD * nano)) }

// Dollars converts billionths of a US dollar to dollars.
func Dollars(nanos int64) float64 { return float64(nanos) / nano }
