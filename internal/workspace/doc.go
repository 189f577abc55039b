// Package workspace packs a working folder into a tar archive and unpacks one. It reads
// and writes nothing outside the folder, whatever links or archives say, and knows no
// task.
package workspace
