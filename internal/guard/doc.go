// Package guard stands before the handlers of every server of ours: it finds out where a
// request comes from, bounds how often each caller may ask, and lets no route exist
// that the server's table has no policy for. It knows neither keys nor routes.
package guard
