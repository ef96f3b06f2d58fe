module corpus

go 1.26.0

replace github.com/baton-go/baton => ../../../..

require github.com/baton-go/baton v0.0.0-00010101000000-000000000000

require github.com/cenkalti/backoff/v4 v4.3.0 // indirect
