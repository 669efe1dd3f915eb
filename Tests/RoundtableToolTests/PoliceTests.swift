#if os(Linux)
    import Foundation
    import Testing

    /// `roundtable police` judges other programs, and says what it found by its exit code.
    @Suite struct PoliceTests {
        private let folder: Folder
        init() throws { folder = try Folder() }

        private static let python = URL(fileURLWithPath: "/usr/bin/python3")
        private static let hasPython = FileManager.default.isExecutableFile(atPath: python.path)

        /// Runs until it is killed; with or without a lock.
        private func program(locks: Bool) -> [String] {
            let lock = locks ? "fcntl.flock(f, fcntl.LOCK_EX)" : "pass"
            return [Self.python.path, "-c", "import fcntl, time; f = open('its.lock', 'w'); \(lock); time.sleep(60)"]
        }

        @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed")) func convicts() throws {
            let result = try Tool.run(["police", "--"] + program(locks: true), in: folder)
            #expect(result.code == 2)
            #expect(result.errors.contains("roundtable: convicted: '"), "\(result.errors)")
            #expect(result.errors.contains("holds an exclusive flock lock on all of \(folder.path("its.lock"))"))
            #expect(result.output.contains("✗ 1 of "))
        }

        @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed")) func releases() throws {
            let result = try Tool.run(["police", "--freezes", "5", "--json", "--"] + program(locks: false), in: folder)
            #expect(result.code == 0, "\(result.errors)")
            #expect(result.json?["freezes"] as? Int == 5)
            #expect(result.json?["convicted"] as? Int == 0)
        }

        @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed")) func mayContinue() throws {
            let options = ["--keep-going", "--freezes", "5", "--pause", "200", "--seed", "7", "--json"]
            let result = try Tool.run(["police"] + options + ["--"] + program(locks: true), in: folder)
            #expect(result.code == 2)
            #expect(result.json?["freezes"] as? Int == 5)
            #expect(result.json?["seed"] as? Int == 7)
            let convictions = try #require(result.json?["convictions"] as? [[String: Any]])
            #expect(convictions.count == result.json?["convicted"] as? Int && !convictions.isEmpty)
            #expect((result.json?["convicted_by_rule"] as? [String: Int])?.keys.sorted() == ["lockedFile"])
            #expect(convictions.allSatisfy { $0["rule"] as? String == "lockedFile" })
        }

        @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed")) func exemptFolder() throws {
            let arguments = ["police", "--strict", "--freezes", "5", "--private", folder.url.path, "--"]
            #expect(try Tool.run(arguments + program(locks: true), in: folder).code == 0)
        }

        @Test func programThatFails() throws {
            let result = try Tool.run(["police", "--", "sh", "-c", "exit 3"], in: folder)
            #expect(result.code == 1)
            #expect(result.errors.contains("sh: ended with exit code 3"))
        }

        /// Ignoring SIGCHLD survives `exec`, and makes the system reap children: how they ended would be lost.
        @Test(.enabled(if: Tool.hasEnv, "/usr/bin/env is not there")) func programThatFailsUnseen() throws {
            let police = [try Tool.url.path, "police", "--", "sh", "-c", "sleep 0.4; exit 3"]
            let result = try Tool.run(["--ignore-signal=CHLD"] + police, in: folder, program: Tool.env)
            #expect(result.code == 1)
            #expect(result.errors.contains("sh: ended with exit code 3"), "\(result.errors)")
        }

        /// A shell that begins programs all the time, by vfork(2), is judged, with the usual notice.
        @Test func shellLoop() throws {
            let options = ["--pause", "3", "--notice", "5", "--freezes", "300", "--json"]
            let loop = ["--", "sh", "-c", "while kill -0 $PPID; do /bin/true; done"]
            let result = try Tool.run(["police"] + options + loop, in: folder)
            #expect(result.code == 0, "\(result.errors)")
            #expect(result.json?["freezes"] as? Int == 300)
        }

        /// A program that was not judged is not innocent.
        @Test func neverFrozen() throws {
            let options = ["--pause", "60000", "--seed", "7"]
            let result = try Tool.run(["police"] + options + ["--", "true"], in: folder)
            #expect(result.code == 1)
            #expect(result.output.hasPrefix("✗ never frozen"), "\(result.output)")
            #expect(result.errors.contains("true: was never frozen"), "\(result.errors)")
        }

        @Test(arguments: ["--notice", "--pause", "--seconds", "--expiry-notice"])
        func negativeTimes(_ option: String) throws {
            let result = try Tool.run(["police", option, "-5", "--", "true"], in: folder)
            #expect(result.code == 64)
            #expect(result.errors.hasPrefix("roundtable: \(option) takes "), "\(result.errors)")
        }

        private static let wrongArguments: [([String], Int32)] = [
            ([], 64), (["--pid", "1", "--", "true"], 64), (["--freezes", "0", "--", "true"], 64),
            (["--notice", "soon", "--", "true"], 64), (["--seed", "x", "--", "true"], 64),
            (["--", "/no/such/program"], 1), (["--pid", "999999999"], 1),
        ]

        @Test(arguments: wrongArguments) func mistakes(_ arguments: [String], _ code: Int32) throws {
            let result = try Tool.run(["police"] + arguments, in: folder)
            #expect(result.code == code, "\(result.errors)")
            #expect(result.errors.hasPrefix("roundtable: ") && result.errors.split(separator: "\n").count == 1)
        }
    }
#endif
