import Foundation
import Roundtable
import RoundtableTestSupport
import Testing

extension ProcessTests {
    /// Replication, restores, read replicas and failover with real servers: S3 (SeaweedFS) and NATS.
    @Suite(
        .timeLimit(.minutes(5)),
        .enabled(if: Litestream.path != nil, "litestream is not in PATH: run 'make test-replication'")
    )
    struct ReplicationServers {
        @Test(.enabled(if: S3Server.program != nil && Rclone.path != nil, "weed (SeaweedFS) or rclone is not in PATH"))
        func failoverOverS3() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let server = try S3Server(fleet)
                try server.makeBucket(fleet)
                let machines = try ["a", "b"].map {
                    try Machine($0, fleet, url: server.litestreamURL, environment: S3Server.litestreamEnvironment)
                }
                let follower = try machines[0].follow(to: fleet.followed)
                try machines[0].writeAndUploadOneRow()
                let states = try FollowedStates(fleet.followed)
                defer { states.end() }
                #expect(try machines[1].promote() == .status(0))
                let peer = try fleet.spawn("b")
                try machines[1].open(peer)
                try peer.call(.write(rows: 1))
                let supervisor = try machines[1].replicate()
                #expect(try supervisor.wait(for: .replicating).term == 1)
                try eventually("the follower is in the new term", within: .seconds(90)) { states.last == 2 }
                try machines[0].comesBack(as: "returned", instead: machines[1])
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try machines[1].restored().entries == ["a": 1, "b": 1])
                #expect(states.all == states.all.sorted() && follower.process.isRunning)
            }
        }

        /// Wrong credentials are named, change nothing, and are no reason to fence (**D5**).
        @Test(.enabled(if: S3Server.program != nil && Rclone.path != nil, "weed (SeaweedFS) or rclone is not in PATH"))
        func wrongCredentials() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let server = try S3Server(fleet)
                try server.makeBucket(fleet)
                let wrong = ["LITESTREAM_SECRET_ACCESS_KEY": "wrong", "AWS_SECRET_ACCESS_KEY": "wrong"]
                let environment = S3Server.litestreamEnvironment.merging(wrong) { $1 }
                let machine = try Machine("a", fleet, url: server.litestreamURL, environment: environment)
                let peer = try fleet.spawn("a")
                try machine.open(peer)
                let supervisor = try machine.replicate()
                let status = try supervisor.wait(for: .failing)
                #expect(status.problem?.hasPrefix("the replica refuses the credentials") == true, "\(status)")
                try peer.call(.write(rows: 1))
                #expect(FenceStatus(ofDatabaseAt: machine.database) == nil)
                let promotion = try machine.startPromotion(of: "other.sqlite")
                #expect(try promotion.waitForExit(within: .seconds(60)) == .status(1))
                #expect(
                    promotion.errorText.contains("the credentials are missing or refused"),
                    "\(promotion.errorText)"
                )
            }
        }

        /// A bucket of NATS has one term, and replicates, restores and is followed as any other place.
        @Test(.enabled(if: NATSServer.program != nil, "nats-server is not installed"))
        func replicationOverNATS() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let server = try NATSServer(fleet)
                let machine = try Machine("a", fleet, url: server.url)
                let peer = try fleet.spawn("a")
                try machine.open(peer)
                try peer.call(.write(rows: 1))
                let supervisor = try machine.replicate()
                try supervisor.wait(for: .replicating)
                let follower = try machine.follow(to: fleet.followed)
                let states = try FollowedStates(fleet.followed)
                defer { states.end() }
                try peer.send(.writeLoop(WriteLoad(seconds: 60, think: 2, commits: 200)))
                _ = try peer.report()
                try eventually("the follower has everything", within: .seconds(60)) { states.last == 201 }
                supervisor.process.signal(SIGTERM)
                #expect(try supervisor.process.waitForExit(within: .seconds(60)) == .status(0))
                #expect(try machine.restored().entries == ["a": 201])
                #expect(follower.process.isRunning)
                let promotion = try machine.startPromotion(of: "other.sqlite")
                #expect(try promotion.waitForExit(within: .seconds(60)) == .status(64))
                #expect(promotion.errorText.contains("a NATS bucket has no folders for terms"))
            }
        }
    }
}

extension S3Server {
    /// Path-style addresses, because the bucket's name cannot be a part of an IP address.
    var litestreamURL: String {
        "s3://bucket/app?endpoint=http://127.0.0.1:\(port)&forcePathStyle=true&region=us-east-1"
    }

    static let litestreamEnvironment = environment.merging([
        "LITESTREAM_ACCESS_KEY_ID": "key", "LITESTREAM_SECRET_ACCESS_KEY": "hunter2",
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2",
    ]) { $1 }

    func makeBucket(_ fleet: PeerFleet) throws {
        let place = url(secret: "hunter2").replacingOccurrences(of: "/outbox", with: "")
        let process = try fleet.spawn(
            program: URL(fileURLWithPath: try #require(Rclone.path)),
            arguments: ["mkdir", place],
            environment: Self.environment
        )
        #expect(try process.waitForExit(within: .seconds(30)) == .status(0), "\(process.errorText)")
    }
}

/// A NATS server with JetStream, and a bucket of objects, on this machine.
struct NATSServer {
    /// The path of the installed program; nil when there is none. Debian installs it where the superuser alone looks.
    static let program: String? = ((ProcessInfo.processInfo.environment["PATH"] ?? "") + ":/usr/sbin")
        .split(separator: ":").map { "\($0)/nats-server" }
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    let port: Int

    var url: String { "nats://127.0.0.1:\(port)/bucket" }

    /// Starts it, and waits until it has the bucket: a stream, as the client libraries of NATS define it
    /// (<https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-20.md>).
    init(_ fleet: PeerFleet) throws {
        let port = Int.random(in: 19000..<25000)
        self.port = port
        _ = try fleet.spawn(
            program: URL(fileURLWithPath: try #require(Self.program)),
            arguments: ["-js", "-sd", "\(fleet.folder.path)/nats", "-a", "127.0.0.1", "-p", "\(port)"]
        )
        let stream = """
            {"name":"OBJ_bucket","subjects":["$O.bucket.C.>","$O.bucket.M.>"],"retention":"limits","discard":"new","storage":"file",\
            "max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_msg_size":-1,"num_replicas":1,"allow_rollup_hdrs":true,"allow_direct":true}
            """
        let script = """
            exec 3<>/dev/tcp/127.0.0.1/\(port) || exit 1
            printf 'CONNECT {"verbose":false}\\r\\nSUB _INBOX.a 1\\r\\nPUB $JS.API.STREAM.CREATE.OBJ_bucket _INBOX.a %d\\r\\n%s\\r\\n' \
                "${#1}" "$1" >&3
            while read -r -t 5 line <&3; do
                case $line in *'"did_create":true'*) exit 0;; esac
            done
            exit 1
            """
        try eventually("the NATS server has a bucket", within: .seconds(60)) {
            let client = try fleet.spawn(
                program: URL(fileURLWithPath: "/bin/bash"),
                arguments: ["-c", script, "bash", stream]
            )
            return try client.waitForExit(within: .seconds(30)) == .status(0)
        }
    }
}
