package claude

import "github.com/bloom-runtime/bloom"

// Retryable reports whether an error of this class is worth another attempt by default. A timeout
// is not: another attempt pays for the same steps and takes as long.
func Retryable(class bloom.ErrorClass) bool {
	switch class {
	case bloom.ClassRateLimited, bloom.ClassProviderError, bloom.ClassCrashed, bloom.ClassWorkerLost:
		return true
	}
	return false
}
