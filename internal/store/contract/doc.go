// Package contract is what the use cases and the loops ask of a store, by noun: requests, answers,
// limits and the interfaces. It stands on the root package and knows no database.
package contract
