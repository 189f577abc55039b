package bloom

import "math"

// What one attempt adds at most to a sum that is kept. Nobody uses as much; but what a
// worker says must not make a sum overflow, for then no transaction that adds to it
// would ever commit.
const (
	MaxTokens  = int64(1e12)
	MaxCostUSD = 1e4
)

// Tokens is how many tokens an attempt used, 0 when it did not say, at most MaxTokens.
func (m Metrics) Tokens() int64 {
	if m.TokensUsed != nil {
		return tokens(m.TokensUsed)
	}
	in, out := m.TokensInOut()
	return min(in+out, MaxTokens)
}

// TokensInOut is how many tokens went in and came out, each 0 when the attempt did not
// say, and at most MaxTokens.
func (m Metrics) TokensInOut() (in, out int64) { return tokens(m.InputTokens), tokens(m.OutputTokens) }

func tokens(n *int64) int64 {
	if n == nil {
		return 0
	}
	return min(max(*n, 0), MaxTokens)
}

// CostNano is what an attempt cost in billionths of a US dollar, 0 when it did not say,
// at most MaxCostUSD.
func (m Metrics) CostNano() int64 {
	if m.CostUSD == nil || math.IsNaN(*m.CostUSD) {
		return 0
	}
	return int64(math.Round(min(max(*m.CostUSD, 0), MaxCostUSD) * nano))
}

const nano = 1e9

// Dollars is an amount in billionths of a US dollar in dollars.
func Dollars(nanos int64) float64 { return float64(nanos) / nano }
