package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Source is how a project became known.
type Source string

// The sources of a project. A manual one is never overwritten by a heartbeat.
const (
	SourceManual    Source = "manual"
	SourceHeartbeat Source = "heartbeat"
)

// Project is a body of work whose memory is shared by nodes.
type Project struct {
	Name        string   `json:"name"`
	CanonicalID string   `json:"canonical_id" doc:"Identifies the project: the first 16 hex digits of the SHA-256 of the name, or what its nodes report"`
	CreatedAt   *Seconds `json:"created_at" doc:"Unix seconds"`
	LastSeen    *Seconds `json:"last_seen" doc:"Last heartbeat of any of its nodes, Unix seconds"`
	NodesCount  int      `json:"nodes_count"`
	Source      Source   `json:"source" enum:"manual,heartbeat"`
}

// CanonicalID derives a project's id from its name. Nodes may report for a
// project under another id; then that id is the project's.
func CanonicalID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:16]
}

// Role is the role of a node in a project.
type Role string

// The roles of a node. Unknown: the project has no valid primary.
const (
	RolePrimary   Role = "primary"
	RoleSecondary Role = "secondary"
	RoleUnknown   Role = "unknown"
)

// Node is a machine that holds a copy of a project's memory.
type Node struct {
	NodeID       string       `json:"node_id"`
	CanonicalID  string       `json:"canonical_id"`
	Role         Role         `json:"role" enum:"primary,secondary,unknown"`
	ObsCount     *int64       `json:"obs_count" doc:"Observations in its memory; null when unknown"`
	DBSHA        string       `json:"db_sha"`
	LastSeen     Seconds      `json:"last_seen" doc:"Unix seconds, by the control plane's clock"`
	IPAddrs      []string     `json:"ip_addrs" nullable:"false"`
	RegisteredAt Seconds      `json:"registered_at" doc:"Unix seconds"`
	ProjectID    *string      `json:"project_id"`
	AgentVersion OptionalText `json:"agent_version" nullable:"true" doc:"Null when unknown"`
}

// NodeHeartbeat is a node's heartbeat for one project. Nil fields keep the stored value.
type NodeHeartbeat struct {
	NodeID       string
	CanonicalID  string
	ObsCount     *int64
	DBSHA        *string
	IPAddrs      *[]string
	ProjectID    *string
	AgentVersion *string
	Proof        Proof
}

// Term is one term of leadership: a node that is the preferred primary for a limited time. The
// epoch grows by one with every selection in a project, and never shrinks.
type Term struct {
	PrimaryNodeID string  `json:"primary_node_id"`
	Epoch         int64   `json:"epoch"`
	LeaseSeconds  int     `json:"lease_seconds"`
	IssuedBy      string  `json:"issued_by"`
	IssuedAt      Seconds `json:"issued_at" doc:"Unix seconds"`
	ExpiresAt     Seconds `json:"expires_at" doc:"Unix seconds"`
}

// Expired reports whether the term has expired at now.
func (t Term) Expired(now time.Time) bool { return ToSeconds(now) >= t.ExpiresAt }

// RoleOf returns the role of a node under the current term, nil without one. After the term has
// expired no node is primary: one that cannot learn of its successor must not continue to act as
// primary.
func RoleOf(current *Term, nodeID string, now time.Time) Role {
	switch {
	case current == nil || current.Expired(now):
		return RoleUnknown
	case current.PrimaryNodeID == nodeID:
		return RolePrimary
	default:
		return RoleSecondary
	}
}

// Selection asks for a new term.
type Selection struct {
	CanonicalID   string
	PrimaryNodeID string
	LeaseSeconds  int
	IssuedBy      string
	// ExpectedEpoch, when set, makes the selection conditional: it fails with ErrEpoch when the
	// project's current epoch is different.
	ExpectedEpoch *int64
}
