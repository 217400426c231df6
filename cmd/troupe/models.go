package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/anthropic"
	"github.com/troupehq/troupe/model/openai"
	"github.com/troupehq/troupe/model/price"
	"github.com/troupehq/troupe/model/provider"
)

// pricing adds the flag for what models cost.
func pricing(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "prices", "", "a JSON `FILE` with the prices of models, beside the built-in ones")
}

// models are those that the hosts of this process think with: the built-in ones, and those of the providers,
// whose keys and addresses are in the environment. A key that is missing is told when it is needed.
func models(pricesFile string) (*model.Registry, error) {
	prices, err := pricesOf(pricesFile)
	if err != nil {
		return nil, err
	}
	claude, err := anthropic.New(provider.Config{
		Key: os.Getenv("ANTHROPIC_API_KEY"), BaseURL: os.Getenv("ANTHROPIC_BASE_URL"), Prices: prices,
	})
	if err != nil {
		return nil, ofEnvironment("ANTHROPIC", err)
	}
	gpt, err := openai.New(provider.Config{
		Key: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL"), Prices: prices,
	})
	if err != nil {
		return nil, ofEnvironment("OPENAI", err)
	}
	return model.New(model.Config{Models: map[string]model.Model{anthropic.Prefix: claude, openai.Prefix: gpt}})
}

// ofEnvironment names the variable that a provider's configuration came from.
func ofEnvironment(prefix string, err error) error {
	variable := prefix + "_API_KEY"
	var e *actor.Error
	if errors.As(err, &e) && e.Field == "base_url" {
		variable = prefix + "_BASE_URL"
	}
	return usage(fmt.Errorf("%s: %w", variable, err))
}

// pricesOf reads the prices in a file; without one there are the built-in ones.
func pricesOf(path string) (*price.Table, error) {
	if path == "" {
		return price.New(price.Config{})
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage(fmt.Errorf("--prices: %w", err))
	}
	defer f.Close()
	prices, err := price.Read(f)
	if err != nil {
		return nil, usage(fmt.Errorf("--prices %s: %w", path, err))
	}
	table, err := price.New(price.Config{Prices: prices})
	if err != nil {
		return nil, usage(fmt.Errorf("--prices %s: %w", path, err))
	}
	return table, nil
}
