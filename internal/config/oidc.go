package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// OIDC configures a sign-in provider (OpenID Connect).
type OIDC struct {
	OIDCIssuer           string   `name:"oidc-issuer" var:"BLOOM_OIDC_ISSUER" key:"oidc_issuer" placeholder:"URL" help:"OpenID Connect provider for signing in to the web application."`
	OIDCClientID         string   `name:"oidc-client-id" var:"BLOOM_OIDC_CLIENT_ID" key:"oidc_client_id" placeholder:"ID" help:"This server's client id at the provider."`
	OIDCClientSecret     Secret   `name:"oidc-client-secret" var:"BLOOM_OIDC_CLIENT_SECRET" key:"oidc_client_secret" hidden:"" help:"This server's client secret at the provider; better given as a file."`
	OIDCClientSecretFile string   `name:"oidc-client-secret-file" var:"BLOOM_OIDC_CLIENT_SECRET_FILE" key:"oidc_client_secret_file" placeholder:"FILE" help:"File with this server's client secret; none for a public client."`
	OIDCRedirectURL      string   `name:"oidc-redirect-url" var:"BLOOM_OIDC_REDIRECT_URL" key:"oidc_redirect_url" placeholder:"URL" help:"Redirect URL registered at the provider: this server's public URL with the path /api/runtime/session/oidc/callback."`
	OIDCScope            []string `name:"oidc-scope" var:"BLOOM_OIDC_SCOPES" key:"oidc_scopes" default:"profile,email" placeholder:"SCOPE" help:"Scope to request besides openid (repeatable)."`
	OIDCClaim            string   `name:"oidc-claim" var:"BLOOM_OIDC_CLAIM" key:"oidc_claim" default:"groups" placeholder:"NAME" help:"Claim with the user's groups; dots select nested members, as in realm_access.roles."`
	OIDCRole             []string `name:"oidc-role" var:"BLOOM_OIDC_ROLES" key:"oidc_roles" placeholder:"ROLE=GROUP" help:"Role of a group: admin, client, approver or viewer; * stands for every user of the provider (repeatable). With several, the most powerful role applies."`
}

// OIDCCallback is the path of the redirect URL.
const OIDCCallback = "/api/runtime/session/oidc/callback"

// finish refuses an incomplete configuration.
func (o *OIDC) finish() error {
	if o.OIDCIssuer == "" {
		for flag, set := range map[string]bool{"--oidc-client-id": o.OIDCClientID != "", "--oidc-client-secret-file": o.OIDCClientSecret != "" || o.OIDCClientSecretFile != "",
			"--oidc-redirect-url": o.OIDCRedirectURL != "", "--oidc-role": len(o.OIDCRole) > 0} {
			if set {
				return fmt.Errorf("%s has no effect without --oidc-issuer", flag)
			}
		}
		return nil
	}
	for _, one := range []struct{ flag, value string }{{"--oidc-issuer", o.OIDCIssuer}, {"--oidc-redirect-url", o.OIDCRedirectURL}} {
		if err := secureURL(one.value); err != nil {
			return fmt.Errorf("%s: %w", one.flag, err)
		}
	}
	if u, _ := url.Parse(o.OIDCRedirectURL); u.Path != OIDCCallback { // parsed above
		return fmt.Errorf("--oidc-redirect-url: the path is %q, not %s", u.Path, OIDCCallback)
	}
	if o.OIDCClientID == "" {
		return errors.New("--oidc-issuer requires --oidc-client-id")
	}
	if len(o.OIDCRole) == 0 {
		return errors.New("--oidc-issuer requires --oidc-role, for example --oidc-role admin=operators --oidc-role 'viewer=*'")
	}
	if _, err := o.Rules(); err != nil {
		return err
	}
	return ReadKey("--oidc-client-secret-file", "BLOOM_OIDC_CLIENT_SECRET", &o.OIDCClientSecret, o.OIDCClientSecretFile)
}

// Rules returns the pairs of --oidc-role.
func (o *OIDC) Rules() (rules [][2]string, err error) {
	for _, text := range o.OIDCRole {
		role, group, _ := strings.Cut(text, "=")
		if !slices.Contains([]string{"admin", "client", "approver", "viewer"}, role) || group == "" {
			return nil, fmt.Errorf("--oidc-role: %q is not like admin=GROUP, client=GROUP, approver=GROUP or viewer=GROUP", text)
		}
		rules = append(rules, [2]string{role, group})
	}
	return rules, nil
}

// secureURL refuses a URL over which a sign-in could be intercepted: http is allowed only for this
// machine.
func secureURL(text string) error {
	if err := CheckURL(text); err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is not https", text)
}
