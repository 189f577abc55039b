// Package guard has what every server does before its handlers: it finds the client's address,
// limits the rate of requests, and refuses routes without a policy. It knows neither keys nor
// routes.
package guard
