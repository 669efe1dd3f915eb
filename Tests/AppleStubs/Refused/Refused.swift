// What platforms lack. The check compiles this file, too. The compiler must refuse each line that ends with "not: PLATFORM, …" on those platforms,
// and no other line: so a fact that a stub has lost is missed.

import MetricKit
import WidgetKit

#if canImport(UIKit)
    import UIKit

    @MainActor func application() { _ = UIApplication.shared }  // not: iOS, visionOS
#endif

func reports(_ payloads: [MXMetricPayload]) {}  // not: macOS
func reloads() { WidgetCenter.shared.reloadAllTimelines() }  // not: visionOS
func timeline(_ policy: TimelineReloadPolicy) {}  // not: visionOS
func activity() { ProcessInfo.processInfo.performExpiringActivity(withReason: "") { _ in } }  // not: macOS, macOS-SDK26
func host() { _ = NSNotification.Name.NSExtensionHostDidEnterBackground }  // not: macOS, macOS-SDK26
