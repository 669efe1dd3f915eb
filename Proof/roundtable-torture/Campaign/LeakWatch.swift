import Foundation
import RoundtableKernel
import RoundtableTestSupport

/// Measures what processes that live through a campaign hold: memory, descriptors and threads.
struct LeakWatch {
    private struct Sample {
        var kibibytes: Double
        var descriptors: Double
        var threads: Double
    }
    private var samples: [String: [Sample]] = [:]

    mutating func sample(_ name: String, _ pid: Int32) {
        #if os(Linux)
            guard let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8),
                let descriptors = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count
            else { return }
            func number(_ key: String) -> Double {
                let line = status.split(separator: "\n").first { $0.hasPrefix("\(key):") }
                return Double(line?.split(whereSeparator: { !$0.isNumber }).first ?? "0") ?? 0
            }
            samples[name, default: []].append(
                Sample(
                    kibibytes: number("VmRSS"),
                    descriptors: Double(descriptors),
                    threads: number("Threads")
                )
            )
        #endif
    }

    /// Compares the medians of the second and of the last quarter of the samples. The first quarter, in which caches fill, does not count.
    /// The bound of threads leaves room for those of Dispatch, whose number follows the load.
    var leaks: [String: CampaignReport.Leak] {
        var result: [String: CampaignReport.Leak] = [:]
        for (name, samples) in samples where samples.count >= 4 {
            let quarter = samples.count / 4
            let early = samples[quarter..<(2 * quarter)]
            let late = samples.suffix(quarter)
            func add(_ what: String, _ bound: Double, _ value: (Sample) -> Double) {
                func median(_ part: ArraySlice<Sample>) -> Double { part.map(value).sorted()[part.count / 2] }
                result["\(name): \(what)"] = .init(early: median(early), late: median(late), bound: bound)
            }
            add("memory (KiB)", 8192) { $0.kibibytes }
            add("descriptors", 8) { $0.descriptors }
            add("threads", 16) { $0.threads }
        }
        return result
    }
}
