import RoundtableTestSupport

// This program is the scriptable child process of the tests. It reads commands, one on each line, performs them, and replies to each
// with one line. See `PeerCommand` of RoundtableTestKit, and `HandlePeer`.
AppleConditions.begin()
if CommandLine.arguments.dropFirst().first == "handle" {
    try HandlePeer.run(Array(CommandLine.arguments.dropFirst(2)))
} else {
    PeerSession().run()
}
