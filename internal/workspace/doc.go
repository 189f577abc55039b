// Package workspace packs a working folder into a tar archive and unpacks one. It reads and writes
// nothing outside the folder, whatever links or archives contain, and knows nothing about tasks.
package workspace
