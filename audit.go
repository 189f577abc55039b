package bloom

import "encoding/json"

// Audit is one entry of the audit log. It is written in the transaction of the change it describes;
// for tasks Data holds the state after the change, so that replaying the log gives the present state.
type Audit struct {
	Seq        int64           `json:"seq"`
	ID         string          `json:"id"`
	Timestamp  int64           `json:"timestamp" doc:"Unix milliseconds"`
	Action     string          `json:"action"`
	EntityType string          `json:"entity_type"`
	EntityID   string          `json:"entity_id"`
	Actor      string          `json:"actor"`
	KeyID      string          `json:"key_id" doc:"The actor's key: its id, or the setting it comes from; empty when no key asked"`
	Address    string          `json:"address" doc:"Where the request came from; empty when none did"`
	Detail     string          `json:"detail"`
	Data       json.RawMessage `json:"data"`
	Hash       string          `json:"hash" doc:"SHA-256 over the hash of the entry before and this entry's canonical JSON (hex); empty for the moment until the entry is chained"`
}
