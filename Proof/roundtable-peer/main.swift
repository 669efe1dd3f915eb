import RoundtableTestSupport

// This program is the scriptable child process of the tests. It reads commands, one on each line, performs them, and replies to each
// with one line. See `PeerCommand` of RoundtableTestKit.
AppleConditions.begin()
PeerSession().run()
