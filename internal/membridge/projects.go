package membridge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

func (s *Server) projectRoutes() {
	created := func(op *huma.Operation) { op.DefaultStatus = http.StatusCreated }
	operation(s, http.MethodGet, "/projects", "All projects, created manually or by heartbeats", s.listProjects)
	operation(s, http.MethodPost, "/projects", "Create a project manually", s.createProject, created)
	operation(s, http.MethodDelete, "/projects/{name}", "Delete a project and its nodes, and end its leadership", s.deleteProject)
	operation(s, http.MethodPost, "/agent/heartbeat", "A node's heartbeat for one project; returns the node's role", s.nodeHeartbeat)
	operation(s, http.MethodGet, "/projects/{cid}/nodes", "Nodes of a project", s.listNodes)
	operation(s, http.MethodGet, "/projects/{cid}/leadership", "The leadership of a project", s.leadership)
	operation(s, http.MethodGet, "/projects/{cid}/leadership/history", "Terms of a project, newest first", s.history)
	operation(s, http.MethodPost, "/projects/{cid}/leadership/select", "Select the preferred primary", s.selectLeader)
}

type projectList struct{ Body []registry.Project }

func (s *Server) listProjects(ctx context.Context, _ *struct{}) (*projectList, error) {
	projects, err := s.store.Projects(ctx)
	return &projectList{projects}, err
}

type newProject struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"128"`
	}
}

type oneProject struct{ Body registry.Project }

func (s *Server) createProject(ctx context.Context, in *newProject) (*oneProject, error) {
	name, err := cleanName(in.Body.Name)
	if err != nil {
		return nil, err
	}
	p, err := s.store.CreateProject(ctx, name)
	return &oneProject{p}, err
}

type deletedProject struct {
	Name string `path:"name" minLength:"1" maxLength:"256" doc:"Its name or canonical_id"`
	NoFields
}

func (s *Server) deleteProject(ctx context.Context, in *deletedProject) (*struct{}, error) {
	return nil, s.store.DeleteProject(ctx, in.Name)
}

type nodeHeartbeatRequest struct {
	Body struct {
		NodeID       string    `json:"node_id" minLength:"1" maxLength:"128"`
		CanonicalID  string    `json:"canonical_id" minLength:"1" maxLength:"128" doc:"The project's id; by default the first 16 hex digits of the SHA-256 of its name"`
		ObsCount     *int64    `json:"obs_count,omitempty" required:"false" nullable:"true" minimum:"0"`
		DBSHA        *string   `json:"db_sha,omitempty" required:"false" nullable:"true" maxLength:"128"`
		LastSeen     any       `json:"last_seen,omitempty" required:"false" doc:"Accepted but ignored: the control plane's clock decides"`
		IPAddrs      *[]string `json:"ip_addrs,omitempty" required:"false" maxItems:"64"`
		ProjectID    *string   `json:"project_id,omitempty" required:"false" nullable:"true" maxLength:"256" doc:"The project's name; registers it"`
		AgentVersion *string   `json:"agent_version,omitempty" required:"false" nullable:"true" maxLength:"128"`
	}
}

type nodeHeartbeatResponse struct {
	Body struct {
		OK          bool          `json:"ok"`
		Role        registry.Role `json:"role" enum:"primary,secondary,unknown"`
		CanonicalID string        `json:"canonical_id"`
		Epoch       int64         `json:"epoch" doc:"Of the current term; 0 without one"`
		ExpiresAt   *float64      `json:"expires_at" doc:"When the current term ends, Unix seconds"`
		// Lease is what the node stores beside the memory, so that push and pull respect it.
		Lease *registry.Term `json:"lease" doc:"The last term, even if expired; null without one"`
	}
}

func (s *Server) nodeHeartbeat(ctx context.Context, in *nodeHeartbeatRequest) (*nodeHeartbeatResponse, error) {
	b := in.Body
	if err := checkLists(b.IPAddrs); err != nil {
		return nil, err
	}
	heartbeat := registry.NodeHeartbeat{NodeID: clean(b.NodeID), CanonicalID: clean(b.CanonicalID), ObsCount: b.ObsCount, DBSHA: cleaned(b.DBSHA),
		IPAddrs: cleanedList(b.IPAddrs), AgentVersion: cleaned(b.AgentVersion), Proof: proof(ctx)}
	if b.ProjectID != nil && *b.ProjectID != "" { // some nodes send "" for unknown
		name, err := cleanName(*b.ProjectID)
		if err != nil {
			return nil, err
		}
		heartbeat.ProjectID = &name
	}
	term, err := s.store.NodeHeartbeat(ctx, heartbeat)
	if err != nil {
		return nil, err
	}
	s.metrics.heartbeats.WithLabelValues("node").Inc()
	out := &nodeHeartbeatResponse{}
	out.Body.OK, out.Body.CanonicalID = true, heartbeat.CanonicalID
	out.Body.Role = registry.RoleOf(term, heartbeat.NodeID, s.store.Now())
	if term != nil {
		out.Body.Epoch, out.Body.ExpiresAt, out.Body.Lease = term.Epoch, &term.ExpiresAt, term
	}
	return out, nil
}

// ProjectPath is the project's id in a path.
type ProjectPath struct {
	CID string `path:"cid" minLength:"1" maxLength:"128" doc:"The project's canonical_id"`
}

// leadershipOf returns a project's leadership with every node's role. Without any heartbeats both
// are empty, which is not an error.
func (s *Server) leadershipOf(ctx context.Context, cid string) (registry.Leadership, error) {
	st, err := s.store.Leadership(ctx, cid)
	if err != nil {
		return st, err
	}
	now := s.store.Now()
	for i := range st.Nodes {
		st.Nodes[i].Role = registry.RoleOf(st.Current, st.Nodes[i].NodeID, now)
	}
	return st, nil
}

type nodeList struct{ Body []registry.Node }

func (s *Server) listNodes(ctx context.Context, in *ProjectPath) (*nodeList, error) {
	st, err := s.leadershipOf(ctx, in.CID)
	return &nodeList{st.Nodes}, err
}

type leadershipResponse struct {
	Body struct {
		CanonicalID      string          `json:"canonical_id"`
		PreferredPrimary *string         `json:"preferred_primary" doc:"The primary node; null when none was selected, or its term has expired"`
		LastPrimary      *string         `json:"last_primary" doc:"The last selected node, null when none ever was"`
		NodeCount        int             `json:"node_count"`
		Nodes            []registry.Node `json:"nodes" nullable:"false"`
		NeedsSelection   bool            `json:"needs_selection" doc:"There is no primary: none was selected, or its term has expired"`
		Lease            *registry.Term  `json:"lease" doc:"The last term, even if expired"`
		Expired          bool            `json:"expired" doc:"The last term has expired"`
	}
}

func (s *Server) leadership(ctx context.Context, in *ProjectPath) (*leadershipResponse, error) {
	st, err := s.leadershipOf(ctx, in.CID)
	if err != nil {
		return nil, err
	}
	out := &leadershipResponse{}
	b := &out.Body
	b.CanonicalID, b.NodeCount, b.Nodes, b.Lease, b.NeedsSelection = in.CID, len(st.Nodes), st.Nodes, st.Current, st.Current == nil
	if t := st.Current; t != nil {
		b.LastPrimary, b.Expired = &t.PrimaryNodeID, t.Expired(s.store.Now())
		b.NeedsSelection = b.Expired
		if !b.Expired {
			b.PreferredPrimary = b.LastPrimary
		}
	}
	return out, nil
}

type historyQuery struct {
	ProjectPath
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type termList struct{ Body []registry.Term }

func (s *Server) history(ctx context.Context, in *historyQuery) (*termList, error) {
	terms, err := s.store.History(ctx, in.CID, in.Limit)
	return &termList{terms}, err
}

type selection struct {
	ProjectPath
	Body struct {
		PrimaryNodeID string  `json:"primary_node_id" minLength:"1" maxLength:"128"`
		LeaseSeconds  int     `json:"lease_seconds,omitempty" required:"false" minimum:"1" maximum:"31536000" default:"3600"`
		IssuedBy      *string `json:"issued_by,omitempty" required:"false" maxLength:"128" doc:"Who decided; default: the kind of key"`
		ExpectedEpoch *int64  `json:"expected_epoch,omitempty" required:"false" minimum:"0" doc:"Select only if this is the current epoch (0: never selected), otherwise 409"`
	}
}

type selected struct {
	Body struct {
		OK            bool             `json:"ok"`
		CanonicalID   string           `json:"canonical_id"`
		PrimaryNodeID string           `json:"primary_node_id"`
		LeaseSeconds  int              `json:"lease_seconds"`
		Detail        string           `json:"detail"`
		Epoch         int64            `json:"epoch"`
		IssuedBy      string           `json:"issued_by"`
		IssuedAt      registry.Seconds `json:"issued_at"`
		ExpiresAt     registry.Seconds `json:"expires_at"`
	}
}

func (s *Server) selectLeader(ctx context.Context, in *selection) (*selected, error) {
	by := string(callerOf(ctx))
	if in.Body.IssuedBy != nil {
		by = cmp.Or(clean(*in.Body.IssuedBy), by)
	}
	term, err := s.store.Select(ctx, registry.Selection{CanonicalID: in.CID, PrimaryNodeID: clean(in.Body.PrimaryNodeID),
		LeaseSeconds: in.Body.LeaseSeconds, IssuedBy: by, ExpectedEpoch: in.Body.ExpectedEpoch})
	if err != nil {
		return nil, err
	}
	s.metrics.selections.Inc()
	out := &selected{}
	b := &out.Body
	b.OK, b.CanonicalID, b.PrimaryNodeID, b.LeaseSeconds = true, in.CID, term.PrimaryNodeID, term.LeaseSeconds
	b.Epoch, b.IssuedBy, b.IssuedAt, b.ExpiresAt = term.Epoch, term.IssuedBy, term.IssuedAt, term.ExpiresAt
	b.Detail = fmt.Sprintf("Selected %s as primary for %d s, epoch %d", term.PrimaryNodeID, term.LeaseSeconds, term.Epoch)
	return out, nil
}
