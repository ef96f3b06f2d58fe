//go:build race

package semaphore_test

const raceEnabled = true // then generated tests take fewer seeds
