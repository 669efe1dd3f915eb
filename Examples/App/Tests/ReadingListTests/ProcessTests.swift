#if os(Linux)
    import Foundation
    import RoundtableTestKit
    import Testing

    /// The app, the widget and the share extension, each a process of its own.
    @Suite(.serialized) struct ProcessTests {
        /// A link that is shared while the app is not running is in the list, and in the widget, when the app has run.
        @Test func linkSharedWhileTheAppIsNotRunning() throws {
            let programs = try Programs()
            // Before the first run of the app, too.
            #expect(try programs.share("https://one.example") == "waiting")
            #expect(try programs.widget() == "Open the app first.")

            var app = try programs.app()
            #expect(try app.type("list", until: "articles") == ["1     one.example", "1 articles"])
            try programs.widgetShows("1 unread\n1  one.example")
            try app.end()

            #expect(try programs.share("https://two.example") == "waiting")
            #expect(try programs.widget() == "1 unread\n1  one.example")
            app = try programs.app()
            try programs.widgetShows("2 unread\n1  one.example\n2  two.example")
            try app.end()
        }

        /// While the app is suspended, it holds no lock, links wait, and the widget shows what it showed, without what its button has read.
        @Test func linkSharedWhileTheAppIsSuspended() throws {
            let police = try SuspensionPolice()
            defer { police.end() }
            let programs = try Programs()
            let app = try programs.app(environment: police.environment)
            #expect(try programs.share("https://one.example", "https://two.example") == "applied\napplied")
            try programs.widgetShows("2 unread")

            try app.suspend()
            #expect(try police.findings(of: app.pid).isEmpty)
            #expect(try programs.share("https://three.example") == "waiting")
            #expect(try programs.widget("read", "1") == "1 unread\n2  two.example")
            #expect(try police.findings(of: app.pid).isEmpty)

            app.resume()
            try programs.widgetShows("2 unread\n2  two.example\n3  three.example")
            let list = ["2     two.example", "3     three.example", "1  ✓  one.example", "3 articles"]
            #expect(try app.type("list", until: "articles") == list)
            try app.end()
        }

        /// The app is frozen at random moments while links arrive: it never holds a lock then, and each link is in the list once.
        @Test func theAppIsFrozenWhileLinksArrive() throws {
            let police = try SuspensionPolice()
            defer { police.end() }
            let programs = try Programs()
            let app = try programs.app(environment: police.environment)

            let sharing = try programs.startSharing()
            var freezes = 0
            let report = try police.patrol(app.pid, freezes: .max, onVerdict: { _ in freezes += 1 }) {
                if freezes < 5 { try? sharing.goOn() }
                return sharing.isRunning
            }
            #expect(report.freezes >= 5 && report.convicted == 0, "\(report)")

            try programs.widgetShows("\(sharing.count) unread")
            #expect(try app.type("list", until: "articles").last == "\(sharing.count) articles")
            try app.end()
        }

        /// The app is killed again and again while links arrive: each link is in the list once.
        @Test func theAppIsKilledWhileLinksArrive() throws {
            let programs = try Programs()
            var app = try programs.app()

            let sharing = try programs.startSharing()
            for _ in 1...5 {
                let before = try app.type("list", until: "articles").count
                try eventually("links arrive") {
                    try sharing.goOn()
                    return try app.type("list", until: "articles").count > before
                }
                app.kill()
                app = try programs.app()
            }
            sharing.waitUntilExit()

            try programs.widgetShows("\(sharing.count) unread")
            #expect(try app.type("list", until: "articles").last == "\(sharing.count) articles")
            try app.end()
        }

        /// The app refuses what is not a web page, and the share extension gets the reason.
        @Test func refusedLink() throws {
            let programs = try Programs()
            let app = try programs.app()
            let answer = try programs.share("ftp://one.example")
            #expect(answer.hasPrefix("set aside (refused): only web pages can be read later"))
            #expect(try app.type("list", until: "articles") == ["0 articles"])
            try app.end()
        }

        /// The app's own buttons perform the commands of the others.
        @Test func buttonsOfTheApp() throws {
            let programs = try Programs()
            let app = try programs.app()
            #expect(try app.type("add https://one.example", until: "added") == ["added"])
            #expect(try app.type("add https://one.example", until: "added") == ["added"])
            try programs.widgetShows("1 unread")
            #expect(try app.type("read 1", until: "read") == ["read"])
            #expect(try app.type("list", until: "articles") == ["1  ✓  one.example", "1 articles"])
            try programs.widgetShows("0 unread")
            try app.end()
        }
    }
#endif
