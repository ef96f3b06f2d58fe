// Package documents_test checks what is not code: the pages' names of tests,
// their YAML and the tests that they show, and the workflows. Package docs of
// the library's module checks what needs no other module.
package documents_test

// root is the repository's.
const root = "../.."
