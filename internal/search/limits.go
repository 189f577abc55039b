package search

// MaxTasksCounted bounds the count of a bulk request's dry run.
const MaxTasksCounted = 10_000

// MaxSearchPage is the most tasks on a page of search results.
const MaxSearchPage = 100
