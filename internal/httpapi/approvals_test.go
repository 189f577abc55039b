package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

const askBody = `{"lease_id":"LEASE","kind":"tool","tool":"Edit","tool_use_id":"toolu_1","input":{"file_path":"a.go","old_string":"x\ny","new_string":"z"}}`

// asked is a leased task that asks for approval, its lease, and the request.
func (r *fixture) asked(body string) (at, lease string, a bloom.Approval) {
	r.t.Helper()
	at, lease = r.leasedTask()
	r.call(200, &a, "POST", at+"/ask", underLease(body, lease))
	return at, lease, a
}

func underLease(body, lease string) string { return strings.ReplaceAll(body, "LEASE", lease) }

func TestARequestIsDecidedOnceAboutExactlyItsInput(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2)
	at, lease, a := r.asked(askBody)
	if a.Status != bloom.ApprovalPending || a.Readable != "a.go\n- x\n- y\n+ z" || a.ExpiresAt-a.AskedAt != 24*3_600_000 {
		t.Errorf("%+v", a)
	}
	var list []bloom.Approval
	r.call(200, &list, "GET", "/approvals?status=pending", "")
	if len(list) != 1 || list[0].ID != a.ID || list[0].Input != nil {
		t.Errorf("%+v", list)
	}
	decision := func(what, sum string) string { return fmt.Sprintf(`{"decision":%q,"input_sha256":%q}`, what, sum) }
	r.fails(409, "conflict", "POST", "/approvals/"+a.ID, decision("allow", "0"))
	r.fails(400, bloom.CodeInvalid, "POST", "/approvals/"+a.ID, `{"decision":"perhaps","input_sha256":"0"}`)
	var decided, again bloom.Approval
	r.call(200, &decided, "POST", "/approvals/"+a.ID, decision("deny", a.InputSHA256))
	if decided.Status != bloom.ApprovalDenied || decided.DecidedBy == nil || len(decided.Input) == 0 {
		t.Errorf("%+v", decided)
	}
	var refused httpapi.Failure
	r.call(409, &refused, "POST", "/approvals/"+a.ID, decision("allow", a.InputSHA256))
	if first := refused.Decided; refused.Code != bloom.CodeConflict || first == nil || first.Status != bloom.ApprovalDenied || *first.DecidedBy != *decided.DecidedBy || *first.DecidedAt != *decided.DecidedAt || first.Input != nil {
		t.Errorf("%+v", refused)
	}
	r.call(200, &again, "POST", at+"/ask", underLease(askBody, lease))
	if again.ID != a.ID || again.Status != bloom.ApprovalDenied || again.UsedBy != lease {
		t.Errorf("asked again: %+v", again)
	}
}

func TestAQuestionNeedsItsAnswers(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 2)
	_, _, a := r.asked(`{"lease_id":"LEASE","kind":"question","tool":"AskUserQuestion","tool_use_id":"toolu_1","input":{"questions":[{"question":"Which?","options":[{"label":"A","description":"first"}]}]}}`)
	if a.Readable != "Which?\n  · A: first" {
		t.Errorf("%q", a.Readable)
	}
	r.fails(400, bloom.CodeInvalid, "POST", "/approvals/"+a.ID, fmt.Sprintf(`{"decision":"allow","input_sha256":%q}`, a.InputSHA256))
	r.call(200, &a, "POST", "/approvals/"+a.ID, fmt.Sprintf(`{"decision":"allow","input_sha256":%q,"answers":{"Which?":"A","other":"x"}}`, a.InputSHA256))
	if len(a.Answers) != 1 || a.Answers["Which?"] != "A" {
		t.Errorf("%+v", a)
	}
}
