package auth

// MaxKeyName is the longest name of a key, in characters.
const MaxKeyName = 128
