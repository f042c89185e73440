package hub

import "context"

// controlling runs the hub's controllers.
type controlling struct {
	hub *Hub
	api *serving
}

// Start implements lifecycle.Component.
func (c *controlling) Start(context.Context) error { return nil }

// Stop implements lifecycle.Component.
func (c *controlling) Stop(context.Context) error { return nil }
