// Package log sets up the one logger of a process: logrus for our own lines, and bridges that bring the lines of the
// embedded libraries (klog, zap) into it.
package log
