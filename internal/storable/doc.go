// Package storable makes text and JSON such as every store can keep.
package storable
