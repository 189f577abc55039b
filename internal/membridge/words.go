package membridge

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/bloom-runtime/bloom/internal/jsonnum"
)

// The library's messages are variables so that programs can replace them. They are global to the
// process; the runtime's API validates bodies without them.
func init() { //nolint:gochecknoinits // before any schema is built from them
	validation.MsgExpectedMinimumNumber = "must be at least %.15g"
	validation.MsgExpectedMaximumNumber = "must be at most %.15g"
	validation.MsgExpectedMinLength = "must not be empty" // the only minimum here is 1
	validation.MsgExpectedMaxLength = "must have at most %d characters"
	validation.MsgExpectedMaxItems = "must have at most %d entries"
	validation.MsgExpectedRequiredProperty = "%s must be given"
	validation.MsgExpectedOneOf = `must be one of "%s"`
	validation.MsgExpectedString = "must be a string"
	validation.MsgExpectedBoolean = "must be true or false"
	validation.MsgExpectedInteger = "must be a whole number"
	validation.MsgExpectedNumber = "must be a number"
	validation.MsgExpectedArray = "must be an array"
	validation.MsgExpectedObject = "must be an object"
	validation.MsgUnexpectedProperty = "is not a field of this request"
}

// unmarshal decodes a body. Its errors are messages for the caller.
func unmarshal(body []byte, into any) error {
	if jsonnum.Exceeds(body) {
		return errors.New("the body nests deeper than 64 levels or has more than 20000 values")
	}
	err := jsonnum.Unmarshal(body, into)
	var typeErr *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typeErr):
		return errors.New(typeErr.Field[strings.LastIndexByte(typeErr.Field, '.')+1:] + ": must be a value of a size that can be kept")
	}
	return errors.New("the body is not valid JSON")
}
