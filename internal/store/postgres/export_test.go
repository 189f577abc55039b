package postgres

// Supported lets the tests ask about servers that are not installed.
var Supported = supported
